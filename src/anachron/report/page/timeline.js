// One fact, date by date: log-probability against time, a panel a run and granularity.

const shown = { fact: null, runs: [], levels: ["year"] };

const MARKS = {
  right: { name: "the fact held", color: "@right", symbol: "circle", size: 9 },
  wrong: { name: "it did not, match won", color: "@wrong", symbol: "circle-open", size: 6 },
  lost: { name: "it did not, match lost", color: "@lost", symbol: "x", size: 9 },
  far: { name: "far error: lost from |alpha| ≥ 1", color: "@far", symbol: "triangle-up", size: 13 },
  open: { name: "undecided, not counted", color: "@open", symbol: "diamond-open", size: 9 },
};

function markOf(row) {
  if (row.status === "correct") return "right";
  if (row.status !== "incorrect") return "open";
  return row.far ? "far" : row.lost ? "lost" : "wrong";
}

const STATUS_WORDS = {
  correct: "the fact held", incorrect: "the fact did not hold", transitional: "undecided, not counted",
  discarded: "its year is undecided, not counted",
};

function hoverOf(row) {
  const lost = row.far ? "; far error" : row.lost ? "; lost" : "";
  return `${row.words}: ${row.logp.toFixed(2)} nats<br>${STATUS_WORDS[row.status]}${lost}, alpha ${row.alpha.toFixed(2)}`;
}

/** Traces and shapes of one panel; `axis` is the suffix of its axes. */
function panel(timeline, axis, held, range) {
  const line = {
    type: "scatter", mode: "lines", x: timeline.rows.map((row) => row.x), y: timeline.rows.map((row) => row.logp),
    line: { color: "@muted", width: 1 }, hoverinfo: "skip", xaxis: `x${axis}`, yaxis: `y${axis}`, name: "all dates",
  };
  const marks = Object.entries(MARKS).map(([key, look]) => {
    const rows = timeline.rows.filter((row) => markOf(row) === key);
    return {
      type: "scatter", mode: "markers", name: look.name, xaxis: `x${axis}`, yaxis: `y${axis}`,
      x: rows.length ? rows.map((row) => row.x) : [null], y: rows.length ? rows.map((row) => row.logp) : [null],
      text: rows.map(hoverOf), customdata: rows.map((row) => row.date), hovertemplate: "%{text}<extra></extra>",
      marker: { color: look.color, symbol: look.symbol, size: look.size, line: { width: key === "far" ? 1 : 1.5, color: key === "far" ? "@ink" : look.color } },
    };
  });
  const level = (name, y, dash, color) => ({
    type: "scatter", mode: "lines", name, xaxis: `x${axis}`, yaxis: `y${axis}`,
    x: y === null ? [null] : range, y: y === null ? [null] : [y, y], line: { color, dash, width: 1.5 },
    hovertemplate: `${name}: %{y:.2f} nats<extra></extra>`,
  });
  const levels = [level("prior: no date given", timeline.prior, "dash", "@prior"), level("weakest right date", timeline.weakest, "dot", "@right")];
  const band = held && {
    type: "rect", xref: `x${axis}`, x0: held[0], x1: held[1], yref: `y${axis} domain`, y0: 0, y1: 1, layer: "below",
    fillcolor: "@held", line: { width: 1, color: "@right", dash: "dot" },
  };
  const change = held && data.edits && {
    ...band, type: "line", x0: held[1], layer: "above", line: { width: 2, color: "@ink" },
  };
  return { traces: [line, ...levels, ...marks], shapes: [band, change].filter(Boolean) };
}

/** Everything of one fact for the chosen runs and granularities, as Plotly has it. */
async function timelineChart(fact, runs, levels) {
  const panels = runs.flatMap((run) => (data.asked[run] ? ["year"] : levels).map((level) => ({ run, level, asked: Boolean(data.asked[run]) })));
  const timelines = await Promise.all(panels.map(({ run, level, asked }) => (asked ? { rows: [], asked: askedRows(fact, run) } : timelineOf(fact, level, run))));
  const places = timelines.flatMap(({ rows, asked }) => [...rows, ...(asked?.years ?? []), ...(asked?.words ?? [])].map((row) => row.x));
  const low = Math.min(...places), high = Math.max(...places);
  const wide = (high - low) / (runs.some((run) => data.asked[run]) ? 8 : 40); // words take theirs
  const room = Math.max(wide, Math.min(0.5, (high - low) / 10 || 0.5));
  const range = places.length ? [low - room, high + room] : [0, 1];
  const scores = timelines.flatMap(({ rows, prior, weakest }) => [...rows.map((row) => row.logp), prior, weakest]).filter(known);
  const least = Math.min(...scores), most = Math.max(...scores);
  const common = scores.length ? [least - 0.08 * (most - least || 1), most + 0.08 * (most - least || 1)] : [-1, 0];
  const [from, until] = [facts.held_from[fact], facts.held_until[fact]];
  const held = known(from) || known(until) ? [from ?? range[0] - 1, until ?? range[1] + 1] : null; // cut where it goes on
  const gap = panels.length > 1 ? 0.3 / (panels.length * 1.3) : 0;
  const height = (1 - gap * (panels.length - 1)) / panels.length;
  const traces = [], shapes = [], annotations = [], axes = {};
  panels.forEach(({ run, level, asked }, n) => {
    const axis = n ? String(n + 1) : "";
    const top = 1 - n * (height + gap);
    const made = asked ? askedPanel(timelines[n].asked, axis, held, range) : panel(timelines[n], axis, held, range);
    traces.push(...made.traces);
    shapes.push(...made.shapes);
    const matches = n ? { matches: "x" } : {};
    axes[`xaxis${axis}`] = { range, ...ticksOf(range), anchor: `y${axis}`, zeroline: false, ...matches };
    axes[`yaxis${axis}`] = { domain: [Math.max(0, top - height), top], anchor: `x${axis}`, title: { text: narrow.matches ? "" : "log-probability (nats)" } };
    if (asked) Object.assign(axes[`yaxis${axis}`], askedAxis());
    else if (data.edits) axes[`yaxis${axis}`].range = common; // so that what an edit takes is seen
    const empty = asked || timelines[n].rows.length ? "" : " – no score";
    const verdict = verdictOf("verdict", fact, run);
    const told = (asked ? `: ${plain(askedWords(askedOf(fact, run)))}` : ` by ${level}${empty}`) + (known(verdict) ? ` – ${plain(verdict)}` : "");
    annotations.push({
      text: `<b>${plain(data.runs[run].name)}</b>${told}`, xref: "paper", yref: "paper", x: 0, y: top,
      xanchor: "left", yanchor: "bottom", showarrow: false,
    });
  });
  const layout = {
    ...axes, shapes, annotations,
    height: 110 + 250 * panels.length, margin: { l: 60, r: narrow.matches ? 8 : 44, t: 30, b: 40 }, showlegend: false,
  };
  return { traces, layout };
}

function ticksOf([low, high]) {
  const marks = yearTicks(low, high, narrow.matches ? 4 : 9);
  return { tickmode: "array", tickvals: marks.map(([at]) => at), ticktext: marks.map(([, text]) => text) };
}

/** The chosen granularities at which a fact has dates; where there is none (it spans no whole year), its coarsest. */
async function levelsFor(fact, runs, levels) {
  if (runs.every((run) => data.asked[run])) return levels;
  const all = await contexts();
  const there = new Set();
  for (let i = all.first[fact]; i < all.first[fact + 1]; i++) {
    if (STATUSES[all.kind[i] & 7] !== "none") there.add(LEVELS[all.kind[i] >> 4]);
  }
  const dated = levels.filter((level) => there.has(level));
  return dated.length ? dated : LEVELS.filter((level) => there.has(level)).slice(0, 1);
}

async function drawTimeline() {
  const { fact, runs, levels: chosen } = shown;
  if (fact === null) return;
  const target = byId("timeline-chart");
  delete target.dataset.fact; // until it is drawn
  const levels = await levelsFor(fact, runs, chosen);
  const { traces, layout } = await timelineChart(fact, runs, levels);
  if (shown.fact !== fact || shown.runs !== runs || shown.levels !== chosen) return; // the reader went on meanwhile
  for (const box of byId("timeline-levels").querySelectorAll("input")) box.checked = levels.includes(box.value);
  byId("timeline-scores").replaceChildren(...(await scoresOf(fact, runs, levels)));
  const isNew = !drawn.has(target);
  await draw(target, traces, layout);
  if (isNew) {
    target.on("plotly_hover", ({ points }) => (byId("timeline-prompt").textContent = promptOf(shown.fact, points[0].customdata)));
    target.on("plotly_unhover", () => (byId("timeline-prompt").textContent = promptOf(shown.fact, null)));
    target.on("plotly_relayout", (change) => {
      if ("xaxis.tickvals" in change || "width" in change) return;
      const ticks = Object.entries(ticksOf(target.layout.xaxis.range));
      const axes = Object.keys(target.layout).filter((name) => name.startsWith("xaxis"));
      const named = axes.flatMap((axis) => ticks.map(([name, value]) => [`${axis}.${name}`, value]));
      window.Plotly.relayout(target, Object.fromEntries(named));
    });
  }
  target.dataset.fact = facts.id[fact];
}

const ASKED_MARKS = { right: MARKS.right.name, wrong: "it did not", lost: "it did not, and was chosen in half of the choices or more" };

const LEGEND = {
  right: '<circle cx="8" cy="8" r="5"/>', wrong: '<circle class="open" cx="8" cy="8" r="3.5"/>',
  lost: '<path class="open" d="M4 4l8 8m0-8l-8 8" stroke-width="3"/>', far: '<path d="M1 14L8 1L15 14Z"/>',
  open: '<path class="open" d="M8 2L14 8L8 14L2 8Z"/>', prior: '<path class="open" d="M0 8h16" stroke-dasharray="6 4"/>',
  weakest: '<path class="open" d="M0 8h16" stroke-dasharray="2 2"/>', held: '<rect width="16" height="16"/>',
  change: '<path class="open" d="M8 0v16"/>', words: '<path d="M8 2L14 8L8 14L2 8Z"/>', believed: '<rect y="5" width="16" height="6"/>',
};

/** What each mark means; the pictures are constants of this file. */
function legend() {
  const marks = anyScored ? Object.keys(MARKS) : ["right", "wrong", "lost"];
  const names = marks.map((key) => [key, anyScored ? MARKS[key].name : ASKED_MARKS[key]]);
  if (anyScored) names.push(["prior", "prior: no date given"], ["weakest", "weakest right date"]);
  names.push(["held", "the period"]);
  if (anyAsked) names.push(["words", "its own words"], ["believed", "the period that it gives"]);
  if (data.edits) names.push(["change", "its end, the change"]);
  return names.map(([key, name]) => {
    const picture = svg("svg", { viewBox: "0 0 16 16", width: 16, height: 16, class: `mark ${key}`, "aria-hidden": "true" });
    picture.innerHTML = LEGEND[key];
    return element("li", {}, picture, ` ${name}`);
  });
}

/** The scores of a timeline that decide, in words. */
function scoreWords({ rows, prior }) {
  const first = (status, sign) => rows.filter((row) => row.status === status).sort((a, b) => sign * (a.logp - b.logp))[0];
  const said = (name, row) => (row ? `${name} ${row.words}: ${row.logp.toFixed(2)}` : null);
  const told = [
    said("likeliest while it held", first("correct", -1)), said("least likely while it held", first("correct", 1)),
    said("likeliest while it did not", first("incorrect", -1)), known(prior) ? `without a date: ${prior.toFixed(2)}` : null,
  ].filter(known);
  return told.length ? `${told.join("; ")} (nats).` : null;
}

/** The same of each run of scores and granularity, as items of a list. */
async function scoresOf(fact, runs, levels) {
  const panels = runs.filter((run) => !data.asked[run]).flatMap((run) => levels.map((level) => [run, level]));
  const told = await Promise.all(panels.map(async ([run, level]) => [run, level, scoreWords(await timelineOf(fact, level, run))]));
  const who = (run) => (data.runs.length > 1 ? `of ${data.runs[run].name}, ` : "");
  return told.filter(([, , words]) => words).map(([run, level, words]) => element("li", {}, `Scores ${who(run)}by ${level}: ${words}`));
}

/** What is known of a fact under each chosen run, in words. */
function aboutFact(fact) {
  const held = `Held ${periodInWords(facts.start[fact], facts.end[fact])}.`;
  const popularity = known(facts.popularity[fact]) ? ` Popularity ${grouped(Math.round(facts.popularity[fact]))}.` : "";
  const runs = shown.runs.map((run) => {
    if (data.asked[run]) return ` ${data.runs[run].name}: ${askedWords(askedOf(fact, run))}.`;
    const each = LEVELS.filter((level) => known(data.metrics[run][level].win_rate[fact])).map((level) => {
      const robust = data.metrics[run][level].robust[fact] === 1 ? ", robust" : "";
      return `${level} ${percent(data.metrics[run][level].win_rate[fact])}${robust}`;
    });
    return ` ${data.runs[run].name}: ${each.length ? `W by ${each.join("; by ")}` : "no matches"}.`;
  });
  return held + popularity + runs.join("");
}

/** The verdict of each run that is a check. */
function verdictsOf(fact, runs = shown.runs) {
  const words = runs.map((run) => {
    const verdict = verdictOf("verdict", fact, run);
    const own = [known(verdict) ? `Verdict: ${verdict}.` : null, verdictOf("told", fact, run), verdictOf("today", fact, run)].filter(known).join(" ");
    return own && (data.runs.length > 1 ? `${data.runs[run].name}: ${own}` : own);
  });
  return words.filter(Boolean).join(" ");
}

/** The prompt of a fact on a date [year, month, day], or the question alone: without a date, or where it is not known how dates are worded. */
function promptOf(fact, date) {
  const question = facts.question[fact];
  if (!known(question)) return "";
  const words = date && data.openings;
  const opening = words ? words.patterns[`${date[1]}-${date[2]}`].replace("{}", words.years[date[0]]) : "";
  return `Asked: ${opening}${question}`;
}

function refreshTimeline() {
  const { fact } = shown;
  const label = [facts.subject[fact], facts.relation[fact], facts.object[fact]].map((text) => text ?? "–").join(" | ");
  byId("timeline-title").textContent = label === "– | – | –" ? facts.id[fact] : label;
  byId("timeline-about").textContent = aboutFact(fact);
  byId("timeline-verdict").textContent = verdictsOf(fact);
  byId("timeline-words").replaceChildren(...wordsOf(fact));
  byId("timeline-prompt").textContent = promptOf(fact, null);
  for (const box of byId("timeline-runs").querySelectorAll("input")) box.checked = shown.runs.includes(Number(box.value));
  for (const box of byId("timeline-levels").querySelectorAll("input")) box.checked = shown.levels.includes(box.value);
  const at = state.order.indexOf(fact);
  byId("previous-fact").disabled = at <= 0;
  byId("next-fact").disabled = at < 0 || at === state.order.length - 1;
  drawTimeline().catch(trouble);
}

/** Open the timeline of a fact under a run, and before and after each edit; the address then names both, to be kept. */
function showFact(fact, run) {
  shown.fact = fact;
  if (known(run)) shown.runs = data.edits ? data.runs.map((_, i) => i) : [run];
  setAddress(`#fact=${encodeURIComponent(facts.id[fact])}&run=${run ?? shown.runs[0]}`);
  if (!byId("timeline").open) byId("timeline").showModal();
  byId("timeline").scrollTop = 0;
  refreshTimeline();
}

function setAddress(hash) {
  if (location.hash !== hash) history.replaceState(null, "", hash || location.pathname + location.search);
}

/** Open the fact that the address names, if it names one. */
function followAddress() {
  const asked = new URLSearchParams(location.hash.slice(1));
  const fact = facts.id.indexOf(asked.get("fact"));
  const run = Number(asked.get("run") ?? 0);
  if (fact >= 0) showFact(fact, data.runs[run] ? run : 0);
}

/** A box that puts a value into a list or takes it out; one always stays chosen. */
function choice(list, value, label, order) {
  const box = element("input", { type: "checkbox", value, change: () => {
    const chosen = new Set(shown[list]);
    if (box.checked) chosen.add(value);
    else chosen.delete(value);
    if (chosen.size) shown[list] = order.filter((item) => chosen.has(item));
    refreshTimeline();
  } });
  return element("label", {}, box, ` ${label}`);
}

function startTimeline() {
  const runs = data.runs.map((_, i) => i);
  byId("timeline-runs").append(...runs.map((run) => choice("runs", run, data.runs[run].name, runs)));
  byId("timeline-levels").append(...LEVELS.map((level) => choice("levels", level, level, LEVELS)));
  byId("timeline-legend").append(...legend());
  byId("close-timeline").addEventListener("click", () => byId("timeline").close());
  byId("timeline").addEventListener("close", () => setAddress(""));
  byId("timeline").addEventListener("click", (event) => event.target === byId("timeline") && byId("timeline").close());
  for (const [id, step] of [["previous-fact", -1], ["next-fact", 1]]) {
    byId(id).addEventListener("click", () => {
      const next = state.order[state.order.indexOf(shown.fact) + step];
      if (known(next)) showFact(next);
    });
  }
  window.addEventListener("hashchange", followAddress);
  followAddress();
}
