// The worst far errors: a sketch of each timeline, and the way to the whole.

const SKETCH = { width: 220, height: 44, edge: 5 };

/** The year scores of a fact as a line, its period as a band, far errors as triangles and other lost years as crosses. */
async function sketch({ fact, run }) {
  const { rows } = await timelineOf(fact, "year", run);
  const { width, height, edge } = SKETCH;
  const xs = rows.map((row) => row.x), ys = rows.map((row) => row.logp);
  const scale = (low, high, from, to) => (value) => from + ((to - from) * (value - low)) / (high - low || 1);
  const x = scale(Math.min(...xs), Math.max(...xs), edge, width - edge);
  const y = scale(Math.min(...ys), Math.max(...ys), height - edge, edge);
  const picture = svg("svg", { viewBox: `0 0 ${width} ${height}`, width, height, class: "sketch", "aria-hidden": "true" });
  const [from, until] = [facts.held_from[fact], facts.held_until[fact]];
  if (known(from) && known(until)) {
    const left = Math.max(0, x(from)), right = Math.min(width, x(until));
    picture.append(svg("rect", { x: left, y: 0, width: Math.max(1, right - left), height, class: "held" }));
  }
  picture.append(svg("polyline", { points: rows.map((row) => `${x(row.x).toFixed(1)},${y(row.logp).toFixed(1)}`).join(" ") }));
  for (const row of rows.filter(({ lost }) => lost)) {
    const [cx, cy] = [x(row.x), y(row.logp)];
    const shape = row.far ? `M${cx - 4},${cy + 3.5}L${cx},${cy - 4}L${cx + 4},${cy + 3.5}Z` : `M${cx - 2.5},${cy - 2.5}l5,5m0,-5l-5,5`;
    picture.append(svg("path", { d: shape, class: row.far ? "far" : "lost" }));
  }
  return picture;
}

async function startWorst() {
  if (!byId("worst-list")) return;
  const items = data.worst.map(async (error) => {
    const { fact, run } = error;
    const label = [facts.subject[fact], facts.relation[fact], facts.object[fact]].map((text) => text ?? "–").join(" | ");
    const link = element("a", { href: `#fact=${encodeURIComponent(facts.id[fact])}&run=${run}`, dir: "auto", click: (event) => {
      event.preventDefault();
      showFact(fact, run);
    } }, label);
    const said = `held ${periodInWords(facts.start[fact], facts.end[fact])}; ${data.runs[run].name} (W ${percent(error.win_rate)} by year) finds it likelier in ${textInWords(error.time)}, ` +
      `${Math.abs(error.alpha).toFixed(1)} periods away, than in a year when it held.`;
    return element("li", {}, element("div", {}, link, element("p", {}, said)), await sketch(error));
  });
  byId("worst-list").append(...(await Promise.all(items)));
}
