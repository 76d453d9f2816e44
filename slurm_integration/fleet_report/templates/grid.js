// The fleet as one picture: a cell a node, in blocks of a rack. Colour, and a shape in it.
const grid = byId("grid");
const pen = grid.getContext("2d");
const SIZE = N > 4000 ? 11 : N > 1200 ? 14 : N > 300 ? 18 : 22;
const LABEL = 15;
let CELL = SIZE;
let places = [];
let cursor = 0;
let shownSet = null;
let colours = {};

function readColours() {
  const style = getComputedStyle(document.documentElement);
  const names = ["go", "degraded", "no-go", "unknown", "silent"];
  const get = (name) => style.getPropertyValue(`--${name}`).trim();
  colours = { soft: get("soft"), focus: get("focus"), text: get("text") };
  for (const name of names) colours[name] = [get(name), get(`${name}-ink`)];
}

// x, y of every cell, and the height they need. Without racks, one block over the whole width.
function place(width) {
  CELL = width < 600 ? Math.min(SIZE, 15) : SIZE;
  const blocks = new Map();
  for (let node = 0; node < N; node += 1) {
    const name = rack(node);
    if (!blocks.has(name)) blocks.set(name, []);
    blocks.get(name).push(node);
  }
  places = new Array(N);
  const labels = [];
  const columns = Math.max(1, Math.floor(width / CELL));
  const gap = CELL;
  let [x, y, tallest] = [0, 0, 0];
  const head = hasRacks ? LABEL : 0;
  for (const [name, nodes] of blocks) {
    const wide = hasRacks ? Math.min(blockWidth(nodes.length), columns) : columns;
    const high = Math.ceil(nodes.length / wide);
    if (x && x + wide * CELL > width) [x, y, tallest] = [0, y + tallest + gap / 2, 0];
    nodes.forEach((node, at) => {
      places[node] = [x + (at % wide) * CELL, y + head + Math.floor(at / wide) * CELL];
    });
    if (head) labels.push([name || "other", x, y + 11, wide * CELL + gap - 4]);
    tallest = Math.max(tallest, head + high * CELL);
    x += wide * CELL + gap;
  }
  return { height: y + tallest, labels };
}

// The width from 6 to 12 that leaves the fewest cells of the last row empty.
function blockWidth(count) {
  if (count <= 6) return count;
  const waste = (wide) => Math.ceil(count / wide) * wide - count;
  const widths = [8, 10, 6, 12, 9, 7, 11];
  return widths.reduce((best, wide) => (waste(wide) < waste(best) ? wide : best));
}

function shape(kind, x, y, size) {
  const at = (u, v) => [x + u * size, y + v * size];
  pen.beginPath();
  if (kind === "no-go") {
    pen.moveTo(...at(0.28, 0.28)); pen.lineTo(...at(0.72, 0.72));
    pen.moveTo(...at(0.72, 0.28)); pen.lineTo(...at(0.28, 0.72));
    pen.stroke();
  } else if (kind === "degraded") {
    pen.moveTo(...at(0.5, 0.22)); pen.lineTo(...at(0.8, 0.76)); pen.lineTo(...at(0.2, 0.76));
    pen.fill();
  } else if (kind === "unknown") {
    pen.font = `bold ${Math.round(size * 0.8)}px system-ui, "DejaVu Sans", sans-serif`;
    pen.textAlign = "center";
    pen.fillText("?", ...at(0.5, 0.8));
  } else if (kind === "silent") {
    pen.moveTo(...at(0.25, 0.5)); pen.lineTo(...at(0.75, 0.5));
    pen.stroke();
  }
}

function drawGrid() {
  const width = Math.floor(grid.parentElement.clientWidth);
  if (!width) return;
  const { height, labels } = place(width);
  const ratio = Math.min(window.devicePixelRatio || 1, 3);
  grid.width = width * ratio;
  grid.height = (height + 4) * ratio;
  grid.style.height = `${height + 4}px`;
  pen.setTransform(ratio, 0, 0, ratio, 0, 2 * ratio);
  readColours();
  pen.textAlign = "start";
  pen.font = `11px system-ui, "DejaVu Sans", sans-serif`;
  pen.fillStyle = colours.soft;
  for (const [name, x, y, room] of labels) pen.fillText(trimmed(name, room), x, y);
  pen.lineWidth = CELL > 14 ? 1.8 : 1.4;
  for (let node = 0; node < N; node += 1) drawCell(node);
  pen.globalAlpha = 1;
  if (chosen !== null) frame(chosen, colours.text, 2);
  if (document.activeElement === grid) frame(cursor, colours.focus, 2);
}

function drawCell(node) {
  const kind = glyphName(word(node));
  const [x, y] = places[node];
  const size = CELL - (CELL > 14 ? 2 : 1);
  const [fillColour, ink] = colours[kind];
  pen.globalAlpha = shownSet && !shownSet.has(node) ? 0.14 : 1;
  pen.fillStyle = fillColour;
  pen.fillRect(x, y, size, size);
  if (kind === "go") return;
  pen.strokeStyle = pen.fillStyle = ink;
  if (kind === "silent") pen.strokeRect(x + 0.5, y + 0.5, size - 1, size - 1);
  shape(kind, x, y, size);
}

function frame(node, colour, width) {
  const [x, y] = places[node];
  pen.strokeStyle = colour;
  pen.lineWidth = width;
  pen.strokeRect(x - 1, y - 1, CELL, CELL);
}

function trimmed(name, room) {
  let short = name;
  while (short && pen.measureText(short).width > room) short = short.slice(0, -1);
  return short;
}

function nodeAt(event) {
  const box = grid.getBoundingClientRect();
  const [x, y] = [event.clientX - box.left, event.clientY - box.top - 2];
  return places.findIndex(([left, top]) => x >= left && x < left + CELL && y >= top && y < top + CELL);
}

function describe(node) {
  const where = rack(node) ? `, ${rack(node)}` : "";
  byId("grid-now").textContent = `${D.names[node]}${where}: ${word(node)}${worst(node) ? ` – ${worst(node)}` : ""}`;
}

function moveTo(node) {
  cursor = node;
  describe(node);
  inSight(node);
  drawGrid();
}

function inSight(node) {
  const view = byId("view");
  const y = places[node][1];
  if (y - LABEL < view.scrollTop) view.scrollTop = Math.max(0, y - LABEL - 4);
  else if (y + CELL + 6 > view.scrollTop + view.clientHeight) view.scrollTop = y + CELL + 6 - view.clientHeight;
}

// The nearest cell in the next row up or down; blocks of racks have rows of their own.
function vertical(step) {
  const [x, y] = places[cursor];
  let best = cursor;
  let least = Infinity;
  for (let node = 0; node < N; node += 1) {
    const [left, top] = places[node];
    const away = (top - y) * step;
    if (away <= 0) continue;
    const far = away * 1000 + Math.abs(left - x);
    if (far < least) [least, best] = [far, node];
  }
  return best;
}

function nextSick(step) {
  for (let at = 1; at <= N; at += 1) {
    const node = (((cursor + step * at) % N) + N) % N;
    if (standing(node) !== GO && (!shownSet || shownSet.has(node))) return node;
  }
  return cursor;
}

function startGrid() {
  const moves = {
    ArrowRight: () => Math.min(cursor + 1, N - 1), ArrowLeft: () => Math.max(cursor - 1, 0),
    ArrowDown: () => vertical(1), ArrowUp: () => vertical(-1), Home: () => 0, End: () => N - 1,
    n: () => nextSick(1), p: () => nextSick(-1),
  };
  grid.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || !N) return;
    if (event.key === "Enter" || event.key === " ") choose(cursor);
    else if (event.key in moves) moveTo(moves[event.key]());
    else return;
    event.preventDefault();
  });
  grid.addEventListener("focus", () => { if (N) moveTo(cursor); });
  grid.addEventListener("blur", drawGrid);
  grid.addEventListener("mousemove", (event) => {
    const node = nodeAt(event);
    if (node >= 0) describe(node);
    grid.title = node >= 0 ? byId("grid-now").textContent : "";
  });
  grid.addEventListener("click", (event) => {
    const node = nodeAt(event);
    if (node < 0) return;
    cursor = node;
    choose(node);
  });
  new ResizeObserver(() => drawGrid()).observe(grid.parentElement);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", drawGrid);
}
