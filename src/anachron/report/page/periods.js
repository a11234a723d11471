// Believed periods: a fact a row, and in it two bars on one time axis, when it held and when the model believes it.

/** 400 days as `1.1 years late`, -3 as `3 days early`. */
function missInWords(days) {
  if (!days) return "exact";
  const size = Math.abs(days);
  const text = size < 365 ? (size === 1 ? "1 day" : `${size} days`) : `${(size / 365.2425).toFixed(1)} years`;
  return `${text} ${days < 0 ? "early" : "late"}`;
}

function missesInWords([start, end]) {
  return [["start", start], ["end", end]].filter(([, days]) => known(days)).map(([name, days]) => `${name} ${missInWords(days)}`).join(", ");
}

/** Where bars may lie: from the first to the last end of those that are drawn, with room for arrows. */
function rangeOf(rows) {
  const ends = rows.flatMap(({ fact, believed }) => [...believed, facts.held_from[fact], facts.held_until[fact]]).filter(known);
  const low = Math.min(...ends), high = Math.max(...ends);
  const room = Math.max((high - low) / 25, 0.5);
  return [low - room, high + room];
}

function bar(kind, [from, until], [low, high], title) {
  const share = (x) => (100 * (x - low)) / (high - low);
  const left = known(from) ? share(from) : 0, right = known(until) ? share(until) : 100;
  const open = `${known(from) ? "" : " from-open"}${known(until) ? "" : " until-open"}`;
  const made = element("span", { class: `span ${kind}${open}`, title });
  made.style.left = `${left}%`;
  made.style.width = `${right - left}%`;
  return made;
}

/** Round years above and below the rows, and a thin line at each in every row. */
function axisOf(range) {
  return yearTicks(...range, narrow.matches ? 4 : 9).map(([at, text]) => [(100 * (at - range[0])) / (range[1] - range[0]), text]);
}

function ticksAt(marks, words) {
  return marks.map(([left, text]) => {
    const tick = element("span", { class: words ? "tick" : "rule" }, words ? text : "");
    tick.style.left = `${left}%`;
    return tick;
  });
}

function periodRow({ fact, start, end, believed, errors }, run, range, marks) {
  const label = [facts.subject[fact], facts.relation[fact], facts.object[fact]].map((text) => text ?? "–").join(" | ");
  const held = `held ${periodInWords(facts.start[fact], facts.end[fact])}`;
  const thought = `believed ${known(start) ? "" : "until "}${known(start) ? periodInWords(start, end) : textInWords(end)}`;
  const misses = missesInWords(errors);
  const link = element("a", { href: `#fact=${encodeURIComponent(facts.id[fact])}&run=${run}`, dir: "auto", click: (event) => {
    event.preventDefault();
    showFact(fact, run);
  } }, label);
  const told = misses ? `${thought}: ${misses}` : thought;
  return element("li", {},
    element("div", {}, link, element("p", {}, `${held}; ${told}`)),
    element("div", { class: "track", "aria-hidden": "true" }, ...ticksAt(marks, false),
      bar("held", [facts.held_from[fact], facts.held_until[fact]], range, held), bar("thought", believed, range, told)));
}

function periodsOf({ label, counts, rows }) {
  const run = data.runs.findIndex(({ name }) => name === label);
  const range = rangeOf(rows), marks = axisOf(range);
  const axis = () => element("div", { class: "axis", "aria-hidden": "true" }, element("div", {}, ...ticksAt(marks, true)));
  const order = ({ fact, believed }) => facts.held_from[fact] ?? believed[0] ?? believed[1];
  const sorted = [...rows].sort((a, b) => order(a) - order(b));
  return [element("p", { class: "hint" }, counts), axis(), element("ol", {}, ...sorted.map((row) => periodRow(row, run, range, marks))), axis()];
}

/** The part of an analysis that shows believed periods, a run at a time. */
function periodsPart(views) {
  const place = element("div", { class: "periods" });
  const choose = element("select", { change: () => show() }, ...views.map((view, i) => element("option", { value: i }, view.label)));
  const show = () => place.replaceChildren(...periodsOf(views[Number(choose.value)]));
  narrow.addEventListener("change", show); // as many years as there is room for
  show();
  const key = (kind, text) => element("li", {}, element("span", { class: `span ${kind}` }), text);
  return element("div", {},
    views.length > 1 ? element("label", { class: "view" }, "Show ", choose) : "",
    element("ul", { class: "legend periods-key", "aria-hidden": "true" }, key("held", "when the fact held"), key("thought", "when the model believes it")),
    place);
}
