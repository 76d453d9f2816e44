// Node sets and commands as text.
const NODE_NAME = /^[A-Za-z0-9][A-Za-z0-9._-]{0,252}$/;

// node01, node02, node04 become node[01-02,04]; names without a number stay as they are.
function fold(names) {
  const sets = new Map();
  const order = [];
  for (const name of names) {
    const found = /^(.*?)(\d{1,15})(\D*)$/.exec(name);
    const key = found ? `${found[1]}\u0000${found[2].length}\u0000${found[3]}` : name;
    if (!sets.has(key)) {
      sets.set(key, found ? { head: found[1], tail: found[3], width: found[2].length, numbers: [] } : null);
      order.push(key);
    }
    if (found) sets.get(key).numbers.push(Number(found[2]));
  }
  return order.map((key) => spell(sets.get(key), key)).join(",");
}

function spell(set, name) {
  if (!set) return name;
  const pad = (number) => String(number).padStart(set.width, "0");
  const numbers = [...new Set(set.numbers)].sort((a, b) => a - b);
  if (numbers.length === 1) return set.head + pad(numbers[0]) + set.tail;
  const ranges = [];
  for (const number of numbers) {
    const last = ranges[ranges.length - 1];
    if (last && last[1] + 1 === number) last[1] = number;
    else ranges.push([number, number]);
  }
  const parts = ranges.map(([low, high]) => (low === high ? pad(low) : `${pad(low)}-${pad(high)}`));
  return `${set.head}[${parts.join(",")}]${set.tail}`;
}

// As a POSIX shell reads one word. Names of another form never get into a command.
function quoted(names) {
  if (!names.every((name) => NODE_NAME.test(name))) return null;
  const folded = fold(names);
  return /^[A-Za-z0-9._,-]+$/.test(folded) ? folded : `'${folded}'`;
}

function commandsOf(node) {
  const nodes = quoted([D.names[node]]);
  if (nodes === null || standing(node) === GO) return [];
  const lines = [];
  if (word(node) === "no answer") lines.push(...(D.answers[text(D.answer[node])] || []));
  else {
    const judging = findings(node).filter((found) => found.severity !== "info");
    const checks = [...new Set([...judging, ...blind(node)].map((one) => one.check))];
    for (const check of checks.filter((name) => /^[a-z0-9]+(-[a-z0-9]+)*$/.test(name)).slice(0, 3)) {
      lines.push([`what ${check} means`, `flightcheck explain ${check}`]);
    }
    const order = Object.keys(D.remedies);
    const places = judging.map((found) => order.indexOf(found.action));
    lines.push(...D.remedies[order[Math.max(0, ...places)]]);
  }
  return lines.map(([why, line]) => [why, line.replaceAll("{nodes}", () => nodes)]);
}
