// The filter: which nodes are shown. It lives in the address, so that a view can be passed on.
const wanted = { q: "", standing: "", check: "", rack: "", profile: "" };

// Lower-case text of a distinct row once, not once a node.
const ROW_TEXT = ROWS.map((row) => `${row.check} ${row.subject} ${row.message} ${row.action}`.toLowerCase());
const CHECK_OF = ROWS.map((row) => row.check);

function hay(node) {
  const detail = D.detail[node] === undefined ? "" : text(D.detail[node]);
  const columns = [D.names[node], rack(node), text(D.state[node]), text(D.profile[node]), text(D.answer[node]), detail];
  return columns.join(" ").toLowerCase();
}
let hays = null;

function hits(node, parts, rowHits) {
  const rows = D.findings[node] || [];
  return parts.every((part, at) => hays[node].includes(part)
    || rows.some((row) => rowHits[at][row])
    || (D.blind[node] !== undefined
      && blind(node).some((one) => `${one.check} ${one.ending} ${one.reason}`.toLowerCase().includes(part))));
}

function hasCheck(node, check) {
  return (D.findings[node] || []).some((row) => CHECK_OF[row] === check)
    || (D.blind[node] !== undefined && blind(node).some((one) => one.check === check));
}

// The nodes that pass the filter, in the order of the sweep.
function filtered() {
  const parts = wanted.q.toLowerCase().split(/\s+/).filter(Boolean);
  if (parts.length && !hays) hays = D.names.map((_, node) => hay(node));
  const rowHits = parts.map((part) => ROW_TEXT.map((row) => row.includes(part)));
  const kind = wanted.standing === "" ? -1 : STANDINGS.indexOf(wanted.standing);
  const found = [];
  for (let node = 0; node < N; node += 1) {
    if (kind >= 0 && standing(node) !== kind) continue;
    if (wanted.rack && rack(node) !== wanted.rack) continue;
    if (wanted.profile && text(D.profile[node]) !== wanted.profile) continue;
    if (wanted.check && !hasCheck(node, wanted.check)) continue;
    if (parts.length && !hits(node, parts, rowHits)) continue;
    found.push(node);
  }
  return found;
}

function distinct(words) {
  return [...new Set(words)].filter(Boolean).sort(COLLATOR.compare);
}

function fill(select, words) {
  select.append(...words.map((value) => make("option", { value, textContent: value })));
}

function fillFilters() {
  const odd = Object.keys(D.blind).flatMap((node) => blind(node).map((one) => one.check));
  fill(byId("f-standing"), STANDINGS);
  fill(byId("f-check"), distinct([...CHECK_OF, ...odd]));
  const racks = distinct(D.rack.map(text));
  const types = distinct(D.profile.map(text));
  fill(byId("f-rack"), racks);
  fill(byId("f-profile"), types);
  byId("rack-label").hidden = racks.length === 0;
  byId("type-label").hidden = types.length < 2;
}

function readAddress() {
  const given = new URLSearchParams(location.hash.slice(1));
  for (const key of Object.keys(wanted)) wanted[key] = given.get(key) || "";
  return given.get("node");
}

function writeAddress(node) {
  const given = new URLSearchParams(Object.entries(wanted).filter(([, value]) => value));
  if (node !== null) given.set("node", D.names[node]);
  const hash = given.toString();
  if (location.hash.slice(1) !== hash) history.replaceState(null, "", hash ? `#${hash}` : "#");
}
