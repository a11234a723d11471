// Every analysis: its chart with a choice of views, its table, its file.

const SHOWN_ROWS = 200;
const FEW_FACTS = 30; // fewer, and the analyses are folded
const OPEN_RUNS = 2; // whose findings stand below a heading; more are folded

/** Rows of a CSV text (RFC 4180), the header first. */
function parseCsv(text) {
  const rows = [[]];
  const cell = /("(?:[^"]|"")*"|[^,\n\r]*)(,|\r?\n|$)/g;
  for (let found; (found = cell.exec(text)); ) {
    const value = found[1].startsWith('"') ? found[1].slice(1, -1).replaceAll('""', '"') : found[1];
    rows.at(-1).push(value);
    if (cell.lastIndex >= text.length) break;
    if (found[2] !== ",") rows.push([]);
  }
  return rows;
}

/** A number as a reader wants it, anything else as it is, without the apostrophe that guards a CSV against formulas. */
function readable(text, numeric) {
  if (text === "" || text === "NaN") return "–";
  if (!numeric || /^-?\d+$/.test(text)) return text.replace(/^'(?=[=+\-@＝＋－＠\t\r])/, "");
  const number = Number(text);
  return Math.abs(number) >= 1e6 || (number && Math.abs(number) < 1e-3) ? number.toExponential(2) : String(Number(number.toFixed(4)));
}

async function tableOf(analysis) {
  const [header, ...rows] = parseCsv(new TextDecoder().decode(await inflate(analysis.csv)));
  const shownRows = rows.slice(0, SHOWN_ROWS).map((row) =>
    element("tr", {}, ...row.map((text, i) => element("td", { class: analysis.numeric[i] ? "number" : null, dir: "auto" }, readable(text, analysis.numeric[i])))));
  const head = element("tr", {}, ...header.map((name, i) => element("th", { scope: "col", class: analysis.numeric[i] ? "number" : null, title: `${name}: ${analysis.meanings[i]}` }, analysis.words[i])));
  const more = rows.length > SHOWN_ROWS ? element("p", { class: "hint" }, `The first ${SHOWN_ROWS} of ${grouped(rows.length)} rows; the CSV has all.`) : null;
  return element("div", {}, element("div", { class: "wide", tabindex: 0, role: "region", "aria-label": analysis.title }, element("table", { class: "numbers" }, element("thead", {}, head), element("tbody", {}, ...shownRows))), more ?? "");
}

/** A link that makes the file from what the page holds, at the moment it is asked for. */
function download(analysis) {
  const name = `${analysis.name}.csv`;
  return element("button", { type: "button", "data-file": name, click: async () => {
    const url = URL.createObjectURL(new Blob([await inflate(analysis.csv)], { type: "text/csv" }));
    element("a", { href: url, download: name }).click();
    setTimeout(() => URL.revokeObjectURL(url), 10_000);
  } }, `Download ${name}`);
}

const rowCount = ({ rows }) => (rows === 1 ? "1 row" : `${grouped(rows)} rows`);

function section(analysis) {
  const chart = analysis.views.length ? element("div", { class: "chart", role: "img", "aria-label": `${analysis.title}; the numbers are in the table below` }) : null;
  const periods = analysis.periods ? periodsPart(analysis.periods) : "";
  const choose = element("select", { change: () => show(Number(choose.value)) }, ...analysis.views.map((view, i) => element("option", { value: i }, view.label)));
  const show = (i) => draw(chart, analysis.views[i].data, analysis.views[i].layout).catch(trouble);
  if (chart) chart.show = () => show(Number(choose.value));
  const details = element("details", { open: !chart && !periods && analysis.rows <= 30, toggle: async () => {
    if (details.open && details.children.length === 1) details.append(await tableOf(analysis));
  } }, element("summary", {}, `Table: ${rowCount(analysis)}`));
  const others = element("ul", { class: "others" }, ...analysis.others.map((text) => element("li", { dir: "auto" }, text)));
  const folded = element("details", { class: "others" }, element("summary", {}, `Other runs: ${analysis.others.length}`), others);
  return element("section", { class: "analysis", id: `analysis-${analysis.name}` },
    element("h3", { dir: "auto" }, analysis.finding ?? analysis.title),
    analysis.others.length > OPEN_RUNS ? folded : analysis.others.length ? others : "",
    element("p", { class: "hint" }, `${analysis.finding ? `${analysis.title}. ` : ""}${analysis.note} Source: ${analysis.source}.`.trim()),
    analysis.views.length > 1 ? element("label", { class: "view" }, "Show ", choose) : "",
    chart ?? "", periods, details, download(analysis));
}

/** Draw charts as they come into sight, and the others one by one when there is nothing else to do. */
function drawInTurn(charts) {
  const waiting = new Set(charts);
  const take = async (chart) => {
    if (!waiting.delete(chart)) return;
    await chart.show();
  };
  const sight = new IntersectionObserver((entries) => {
    for (const { isIntersecting, target } of entries) if (isIntersecting) take(target).catch(trouble);
  }, { rootMargin: "600px" });
  charts.forEach((chart) => sight.observe(chart));
  const idle = window.requestIdleCallback ?? ((work) => setTimeout(work, 50));
  const next = async () => {
    const [chart] = waiting;
    if (!chart) {
      document.documentElement.dataset.charts = "drawn";
      return;
    }
    await take(chart);
    idle(() => next().catch(trouble));
  };
  idle(() => next().catch(trouble));
}

/** Groups in their order with what is drawn or found in them; the rest is folded. */
function startAnalyses() {
  const shownHere = data.analyses.filter(({ apart, empty }) => !apart && !empty);
  const groups = data.groups.map((group, n) => {
    const own = shownHere.filter((analysis) => analysis.group === group);
    return own.length ? element("section", { class: "group", id: `group-${n}` }, element("h2", {}, group), ...own.map(section)) : null;
  });
  const rest = shownHere.filter(({ group }) => !known(group));
  const folded = rest.length ? element("details", { id: "more-tables" }, element("summary", {}, `More tables: ${rest.length}`), ...rest.map(section)) : null;
  byId("analyses-list").append(...[...groups, folded].filter(known));
  byId("downloads-list").append(...data.analyses.map((analysis) => element("li", {}, `${analysis.title}, ${rowCount(analysis)} `, download(analysis))));
  const charts = [...byId("analyses-list").querySelectorAll(".chart")];
  // Of few facts analyses say little: they are folded, and drawn when they are opened
  const place = byId("analyses-fold");
  place.open = total >= FEW_FACTS;
  const wait = place.open ? Promise.resolve() : new Promise((open) => place.addEventListener("toggle", open, { once: true }));
  startOpening().then(() => wait).then(() => drawInTurn(charts)).catch(trouble);
}
