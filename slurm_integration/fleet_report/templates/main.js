// Wiring: events to the parts, and the first drawing.
let said = null;

function say(words) {
  clearTimeout(said);
  byId("said").textContent = words;
  said = setTimeout(() => { byId("said").textContent = ""; }, 3000);
}

async function copy(words, button) {
  try {
    await navigator.clipboard.writeText(words);
  } catch {
    const area = make("textarea", { value: words, className: "sr" });
    document.body.append(area);
    area.select();
    document.execCommand("copy");
    area.remove();
    button.focus();
  }
  say("Copied");
  const label = button.firstChild.textContent;
  if (label === "Copied") return;
  button.firstChild.textContent = "Copied";
  setTimeout(() => { button.firstChild.textContent = label; }, 1200);
}

function update() {
  const nodes = filtered();
  shownSet = nodes.length === N ? null : new Set(nodes);
  const count = nodes.length.toLocaleString("en");
  byId("count").textContent = shownSet ? `${count} of ${N.toLocaleString("en")} nodes` : `all ${count} nodes`;
  byId("folded").textContent = shownSet ? fold(nodes.map((node) => D.names[node])) : "";
  byId("copy-nodes").hidden = !shownSet || !nodes.length;
  for (const button of document.querySelectorAll(".tally button")) {
    button.setAttribute("aria-pressed", button.dataset.standing === wanted.standing);
  }
  list.scrollTop = 0;
  setOrder(nodes);
  drawGrid();
  writeAddress(chosen);
}

function show() {
  byId("q").value = wanted.q;
  for (const key of ["standing", "check", "rack", "profile"]) {
    const select = byId(`f-${key}`);
    select.value = wanted[key];
    if (select.value !== wanted[key]) select.value = wanted[key] = "";
  }
  update();
}

function clear() {
  for (const key of Object.keys(wanted)) wanted[key] = "";
  show();
}

function startFilters() {
  fillFilters();
  let pause = null;
  byId("q").addEventListener("input", (event) => {
    wanted.q = event.target.value;
    clearTimeout(pause);
    pause = setTimeout(update, N > 2000 ? 120 : 0);
  });
  for (const key of ["standing", "check", "rack", "profile"]) {
    byId(`f-${key}`).addEventListener("change", (event) => { wanted[key] = event.target.value; update(); });
  }
  document.querySelector(".tools").addEventListener("submit", (event) => event.preventDefault());
  byId("clear").addEventListener("click", () => { clear(); byId("q").focus(); });
  document.querySelector(".tally").addEventListener("click", (event) => {
    const button = event.target.closest("button");
    if (!button) return;
    wanted.standing = wanted.standing === button.dataset.standing ? "" : button.dataset.standing;
    show();
  });
}

function startKeys() {
  document.addEventListener("keydown", (event) => {
    const typing = /^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName);
    if (event.key === "/" && !typing && !event.ctrlKey && !event.metaKey) {
      event.preventDefault();
      byId("q").focus();
      byId("q").select();
    } else if (event.key === "Escape" && (typing || event.target === document.body)) clear();
  });
  document.addEventListener("click", (event) => {
    const button = event.target.closest("button.copy");
    if (!button) return;
    copy(button.previousElementSibling.textContent, button);
  });
}

// Dots of the plots lead to their node.
function startDots() {
  const places = new Map(D.names.map((name, node) => [name, node]));
  const open = (dot) => { choose(places.get(dot.dataset.node)); byId("nodes").scrollIntoView(); };
  for (const dot of document.querySelectorAll(".dot")) {
    if (!places.has(dot.dataset.node)) continue;
    dot.classList.add("linked");
    dot.setAttribute("tabindex", "0");
    dot.setAttribute("role", "button");
    dot.addEventListener("click", () => open(dot));
    dot.addEventListener("keydown", (event) => { if (event.key === "Enter") open(dot); });
  }
}

// On paper nothing scrolls: all rows, all groups, light colours.
function startPrinting() {
  const shut = new Set();
  addEventListener("beforeprint", () => {
    document.documentElement.classList.add("printing");
    for (const group of document.querySelectorAll("details:not([open])")) { shut.add(group); group.open = true; }
    everyRow = true;
    if (!shownSet) order = order.filter((node) => standing(node) !== GO);
    drawRows();
    drawGrid();
  });
  addEventListener("afterprint", () => {
    document.documentElement.classList.remove("printing");
    for (const group of shut) group.open = false;
    shut.clear();
    everyRow = false;
    update();
  });
}

byId("app").hidden = false;
document.body.classList.toggle("no-racks", !hasRacks);
for (const button of document.querySelectorAll(".copy")) button.hidden = false;
for (const button of document.querySelectorAll(".tally button")) button.disabled = false;
const asked = readAddress();
startFilters();
startTable();
startGrid();
startKeys();
startDots();
startPrinting();
show();
const first = asked === null ? -1 : D.names.indexOf(asked);
if (first >= 0) choose(first);
else writeAddress(null);
addEventListener("hashchange", () => {
  const node = D.names.indexOf(readAddress());
  show();
  if (node >= 0) choose(node);
});
