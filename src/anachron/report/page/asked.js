// Runs that asked for answers: their panel of a timeline, and the model's own words.

const SHORT = 22; // letters of an answer that stand on a timeline; all of it is below

/** What such a run found of a fact; null for a run of scores and for a fact that it was not asked about. */
const askedOf = (fact, run) => data.asked[run]?.facts[fact] ?? null;

const anyAsked = data.asked.some(known), anyScored = data.asked.some((part) => !known(part));

const shortened = (text) => (text.length <= SHORT ? text : `${text.slice(0, SHORT - 1)}…`);

/** Marks of one fact under such a run: how often each year was chosen, and what open questions were answered with. */
function askedRows(fact, run) {
  const found = askedOf(fact, run);
  const years = (found?.years ?? []).map(([year, taken, of, held]) => ({
    x: middleOf(year), y: taken / of, mark: held ? "right" : 2 * taken >= of ? "lost" : "wrong", date: [year, 0, 0],
    text: `${inWords(year, 0, 0)}: chosen in ${taken} of ${of} choices<br>${held ? "the fact held" : "the fact did not hold, or not all year"}`,
  }));
  const words = (found?.said ?? []).filter(([year]) => known(year)).map(([year, text, read]) => ({
    x: middleOf(Number(year)), text: plain(shortened(text)), date: [Number(year), 0, 0],
    hover: `${inWords(Number(year), 0, 0)}: “${plain(shortened(text))}”<br>${plain(read)}`,
  }));
  return { years, words, believed: found?.believed ?? null };
}

/** Traces and shapes of one panel; arguments as of `panel`. */
function askedPanel({ years, words, believed }, axis, held, range) {
  const place = { xaxis: `x${axis}`, yaxis: `y${axis}` };
  const marks = ["right", "wrong", "lost"].map((key) => {
    const { color, symbol, size } = MARKS[key];
    const rows = years.filter((row) => row.mark === key);
    return {
      type: "scatter", mode: "markers", name: key, ...place, x: rows.map((row) => row.x), y: rows.map((row) => row.y),
      text: rows.map((row) => row.text), customdata: rows.map((row) => row.date), hovertemplate: "%{text}<extra></extra>",
      marker: { color, symbol, size, line: { width: 1.5, color } },
    };
  });
  const said = {
    type: "scatter", mode: "markers+text", name: "its own words", ...place, x: words.map((row) => row.x), y: words.map((_, n) => (n % 2 ? 1.27 : 1.12)), // so that neighbours do not meet
    text: words.map((row) => row.text), textposition: "top center",
    textfont: { color: "@open", size: 12 }, customdata: words.map((row) => row.date), hovertext: words.map((row) => row.hover),
    hovertemplate: "%{hovertext}<extra></extra>", marker: { color: "@open", symbol: "diamond", size: 9 }, cliponaxis: false,
  };
  const band = (from, until, more) => ({ type: "rect", xref: `x${axis}`, x0: from, x1: until, layer: "below", ...more });
  const shapes = [];
  if (held) shapes.push(band(...held, { yref: `y${axis} domain`, y0: 0, y1: 1, fillcolor: "@held", line: { width: 1, color: "@right", dash: "dot" } }));
  if (believed) {
    const [from, until] = [onAxis(believed[0]), known(believed[1]) ? onAxis(believed[1]) + 1 : range[1] + 1];
    shapes.push(band(from, until, { yref: `y${axis}`, y0: -0.2, y1: -0.11, fillcolor: "@prior", line: { width: 0 } }));
  }
  return { traces: [...marks, said], shapes };
}

const askedAxis = () => ({
  range: [-0.25, 1.45], tickmode: "array", tickvals: [0, 0.5, 1], tickformat: ".0%", zeroline: false,
  title: { text: narrow.matches ? "" : "how often chosen" },
});

/** The model's own words about a fact, run by run, and what was read in them. */
function wordsOf(fact) {
  return shown.runs.flatMap((run) => {
    const found = askedOf(fact, run);
    if (!found) return [];
    const who = data.runs.length > 1 ? `${data.runs[run].name}, ` : "";
    const items = found.said.map(([year, text, read]) => {
      const when = known(year) ? `in ${inWords(Number(year), 0, 0)}` : "from when to when";
      return element("li", {}, `${who}${when}: `, element("q", { dir: "auto" }, text), ` – ${read}`);
    });
    const unread = found.unread ? [element("li", {}, `${who}choices that could not be read: ${found.unread}`)] : [];
    return [...items, ...unread];
  });
}

/** W by choice of a fact under such a run, in words. */
function askedWords(found) {
  if (!found) return "not asked";
  const [w, low, high] = found.w;
  return known(w) ? `W by choice ${percent(w)} [${percent(low)}, ${percent(high)}], ${found.matches[0]} of ${found.matches[1]} matches` : "no choice of two years could be read";
}
