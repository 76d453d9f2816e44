// The data block, and what is asked of it. A node is a number: its place in the sweep.
const byId = (id) => document.getElementById(id);
const D = JSON.parse(byId("data").textContent);
const N = D.names.length;
const STANDINGS = D.standings;
const GO = STANDINGS.indexOf("go");
const GLYPHS = { "no answer": "silent" };
const text = (place) => D.texts[place];
const standing = (node) => D.standing.charCodeAt(node) - 48;
const word = (node) => STANDINGS[standing(node)];
const glyphName = (kind) => GLYPHS[kind] || kind;
const rack = (node) => text(D.rack[node]);
const hasRacks = D.rack.some((place) => text(place) !== "");

const FIELDS = ["check", "severity", "action", "subject", "message", "measured", "expected", "source"];
const ROWS = D.rows.map((row) => Object.fromEntries(row.map((place, at) => [FIELDS[at], text(place)])));

function findings(node) {
  return (D.findings[node] || []).map((row) => ROWS[row]);
}

function blind(node) {
  return (D.blind[node] || []).map(([check, ending, reason]) => (
    { check: text(check), ending: text(ending), reason: text(reason) }
  ));
}

// One line for the list: the worst that is known of a node.
function worst(node) {
  const found = findings(node)[0];
  if (found) return `${found.check}: ${found.message}`;
  const odd = blind(node)[0];
  if (odd) return `${odd.check}: ${odd.ending}${odd.reason ? `, ${odd.reason}` : ""}`;
  if (word(node) === "no answer") {
    const detail = D.detail[node] === undefined ? "" : text(D.detail[node]);
    return text(D.answer[node]) + (detail ? `: ${detail}` : "");
  }
  return "";
}

const COLLATOR = new Intl.Collator("en", { numeric: true });

// An element; strings become text, never markup.
function make(tag, properties, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(properties || {})) {
    if (name in element && name !== "role") element[name] = value;
    else element.setAttribute(name, value);
  }
  element.append(...children.filter((child) => child !== null && child !== ""));
  return element;
}

function glyph(kind) {
  const space = "http://www.w3.org/2000/svg";
  const svg = document.createElementNS(space, "svg");
  svg.setAttribute("class", `glyph g-${glyphName(kind)}`);
  svg.setAttribute("aria-hidden", "true");
  const use = document.createElementNS(space, "use");
  use.setAttribute("href", `#${glyphName(kind)}`);
  svg.append(use);
  return svg;
}
