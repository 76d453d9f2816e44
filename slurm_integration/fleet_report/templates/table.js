// The list: only the rows in sight are there.
const ROW = 29;
const list = byId("list");
const table = byId("table");
const body = byId("rows");
let order = [];
let sort = { by: "standing", down: false };
let everyRow = false;

const KEYS = {
  name: (a, b) => COLLATOR.compare(D.names[a], D.names[b]),
  standing: (a, b) => standing(a) - standing(b),
  rack: (a, b) => COLLATOR.compare(rack(a), rack(b)),
  state: (a, b) => COLLATOR.compare(text(D.state[a]), text(D.state[b])),
  finding: (a, b) => (worst(a) === "") - (worst(b) === "") || COLLATOR.compare(worst(a), worst(b)),
};

function setOrder(nodes) {
  const compare = KEYS[sort.by];
  order = [...nodes].sort((a, b) => (sort.down ? compare(b, a) : compare(a, b)) || a - b);
  table.setAttribute("aria-rowcount", order.length + 1);
  for (const head of table.querySelectorAll("th")) {
    const chosen = head.dataset.sort === sort.by;
    head.setAttribute("aria-sort", chosen ? (sort.down ? "descending" : "ascending") : "none");
  }
  drawRows();
}

function sortBy(by) {
  sort = { by, down: sort.by === by && !sort.down };
  setOrder(order);
}

function row(node, at) {
  const cell = (name, ...children) => make("td", { role: "gridcell", className: name }, ...children);
  const kind = word(node);
  return make(
    "tr", {
      role: "row", id: `row-${node}`, "aria-rowindex": at + 2, "aria-selected": node === chosen,
    },
    cell("c-v", glyph(kind), make("span", { className: "word", textContent: ` ${kind}` })),
    cell("c-n mono", D.names[node]),
    cell("c-r", rack(node)),
    cell("c-s", text(D.state[node])),
    cell("c-f", worst(node)),
  );
}

function spacer(height) {
  const cell = make("td", { className: "spacer", colSpan: 5 });
  cell.style.height = `${height}px`;
  return make("tr", { "aria-hidden": "true" }, cell);
}

function drawRows() {
  const head = table.tHead.offsetHeight;
  const first = everyRow ? 0 : Math.max(0, Math.floor((list.scrollTop - head) / ROW) - 8);
  const many = everyRow ? 2000 : Math.ceil(list.clientHeight / ROW) + 16;
  const shown = order.slice(first, first + many);
  const rows = shown.map((node, at) => row(node, first + at));
  if (first) rows.unshift(spacer(first * ROW));
  const after = order.length - first - shown.length;
  if (after > 0 && !everyRow) rows.push(spacer(after * ROW));
  if (!order.length) rows.push(make("tr", {}, make("td", { colSpan: 5, className: "quiet", textContent: "No node is like that." })));
  body.replaceChildren(...rows);
  if (chosen !== null && byId(`row-${chosen}`)) table.setAttribute("aria-activedescendant", `row-${chosen}`);
  else table.removeAttribute("aria-activedescendant");
}

function reveal(node) {
  const at = order.indexOf(node);
  if (at < 0) return;
  const top = at * ROW;
  const room = list.clientHeight - table.tHead.offsetHeight - ROW;
  if (top < list.scrollTop) list.scrollTop = top;
  else if (top > list.scrollTop + room) list.scrollTop = top - room;
}

function startTable() {
  let waiting = false;
  list.addEventListener("scroll", () => {
    if (waiting) return;
    waiting = true;
    requestAnimationFrame(() => { waiting = false; drawRows(); });
  });
  body.addEventListener("click", (event) => {
    const hit = event.target.closest("tr[id]");
    if (hit) choose(Number(hit.id.slice(4)));
  });
  table.tHead.addEventListener("click", (event) => {
    const head = event.target.closest("th");
    if (head && event.target.closest("button")) sortBy(head.dataset.sort);
  });
  table.addEventListener("keydown", (event) => {
    if (event.target !== table) return;
    const page = Math.max(1, Math.floor(list.clientHeight / ROW) - 2);
    const steps = { ArrowDown: 1, ArrowUp: -1, PageDown: page, PageUp: -page, Home: -N, End: N };
    if (event.key === "Enter") byId("detail").focus();
    if (!(event.key in steps) || !order.length) return;
    event.preventDefault();
    const at = order.indexOf(chosen);
    const next = at < 0 ? 0 : at + steps[event.key];
    choose(order[Math.min(Math.max(next, 0), order.length - 1)]);
  });
}
