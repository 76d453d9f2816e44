// One node, all that is known of it.
let chosen = null;

function detailOf(node) {
  const kind = word(node);
  const parts = [
    make("div", { className: "head" }, glyph(kind), make("h3", { textContent: D.names[node] }), make("span", { className: "word", textContent: kind })),
    facts([
      ["rack", rack(node)], ["type", text(D.profile[node])], ["Slurm", text(D.state[node])],
      ["answer", `${text(D.answer[node])}, ${text(D.transport[node])}, ${D.seconds[node]} s`],
      ["said", D.detail[node] === undefined ? "" : text(D.detail[node])],
    ]),
  ];
  const found = findings(node);
  if (found.length) parts.push(title("Findings"), ...found.map(findingOf));
  if (D.more[node]) parts.push(make("p", { className: "quiet", textContent: `and ${D.more[node]} more: flightcheck check shows all` }));
  const odd = blind(node);
  if (odd.length) parts.push(title("Could not be judged"), ...odd.map(blindOf));
  const commands = commandsOf(node);
  if (commands.length) parts.push(title("Next"), make("ul", { className: "commands" }, ...commands.map(commandOf)));
  const figures = figuresOf(node);
  if (figures.length) parts.push(title("Figures, and the median of its peers"), facts(figures));
  return parts;
}

const title = (words) => make("h4", { textContent: words });

function facts(pairs) {
  const list = make("dl", { className: "facts" });
  for (const [name, value, className] of pairs.filter(([, value]) => value)) {
    list.append(make("dt", { textContent: name }), make("dd", { textContent: value, className: className || "" }));
  }
  return list;
}

function findingOf(found) {
  const remedy = found.action === "none" ? "" : found.action;
  return make(
    "div", { className: "one" },
    make("p", {}, make("span", { className: `tag t-${found.severity}`, textContent: found.severity }), " ",
      make("span", { className: "mono", textContent: found.check }), " ",
      make("b", { textContent: found.subject })),
    make("p", { textContent: found.message }),
    make("p", { className: "figures" }, ...figure("measured", found.measured), ...figure("expected", found.expected), ...figure("remedy", remedy)),
    found.source ? make("p", { className: "small", textContent: `source: ${found.source}` }) : "",
  );
}

function figure(name, value) {
  return value ? [make("span", {}, make("i", { textContent: `${name} ` }), value)] : [];
}

function blindOf(one) {
  return make("div", { className: "one" }, make("p", {},
    make("span", { className: `tag t-${one.ending}`, textContent: one.ending }), " ",
    make("span", { className: "mono", textContent: one.check }), " ", one.reason));
}

function commandOf([why, line]) {
  return make("li", {},
    make("span", { className: "why", textContent: why }),
    make("code", { textContent: line }),
    make("button", { type: "button", className: "copy", "aria-label": `Copy ${line}`, textContent: "Copy" }));
}

function valueOf(metric, node) {
  if (!metric.at) return metric.values[node];
  metric.places ||= new Map(metric.at.map((at, place) => [at, metric.values[place]]));
  return metric.places.get(node);
}

function figuresOf(node) {
  const figures = [];
  for (const metric of D.metrics) {
    const value = valueOf(metric, node);
    if (value === undefined) continue;
    const out = (metric.low !== null && value < metric.low) || (metric.high !== null && value > metric.high);
    const words = `${value} ${metric.unit} (median ${metric.median})${out ? ", beyond the bounds" : ""}`;
    figures.push([metric.name, words, out ? "out" : ""]);
  }
  return figures;
}

// Choose a node everywhere: detail, list, grid, plots and address.
function choose(node) {
  chosen = node;
  byId("detail").replaceChildren(...detailOf(node));
  byId("detail").scrollTop = 0;
  reveal(node);
  drawRows();
  drawGrid();
  inSight(node);
  for (const dot of document.querySelectorAll(".dot")) dot.classList.toggle("here", dot.dataset.node === D.names[node]);
  writeAddress(node);
}
