// The facts, in a table or, of a check, in cards: filters, order, pages, keys.

const PAGE = 50;
const FILTERS = ["search", "relation", "verdict", "robust", "from", "to", "popular-from", "popular-to"];
const facts = data.facts;
const total = facts.id.length;
const everyLevel = ["global", ...LEVELS];
const usedLevels = everyLevel.filter((level) => data.metrics.some((of) => of[level].win_rate.some(known)));
const state = { run: 0, level: usedLevels[0] ?? "global", sort: "popularity", down: true, page: 0, order: [], cards: null };

const searched = facts.id.map((_, i) => folded([facts.subject[i], facts.relation[i], facts.object[i]].filter(known).join(" ")));
const robustAt = (run, i) => LEVELS.filter((level) => data.metrics[run][level].robust[i] === 1);

/** all, some, none, or unknown where the run has no match of the fact. */
function robustStatus(run, i) {
  if (LEVELS.every((level) => !known(data.metrics[run][level].robust[i]))) return "unknown";
  const count = robustAt(run, i).length;
  return count === 3 ? "all" : count > 0 ? "some" : "none";
}

const ROBUST = { all: "● at all three", some: "◐ at ", none: "○ at none", unknown: "–" };

/** What a check says of a fact under the run that is looked at, null where that is no check. */
const verdictOf = (column, i, run = state.run) => data.verdicts?.runs[run]?.[column][i] ?? null;

const hasPopularity = facts.popularity.some(known);
/** W of a fact under a run, the one that is looked at or another; of one that asked, which asks by year, that by year. */
const winRateOf = (i, run = state.run) => data.metrics[run][data.asked[run] ? "year" : state.level].win_rate[i];
const BESIDE = 4; // runs that are told side by side for each fact
const sideBySide = data.runs.length > 1 && data.runs.length <= BESIDE;
const others = () => data.runs.map((_, run) => run).filter((run) => run !== state.run);
/** What the other runs make of a fact; of a single one without its name. */
const besideOf = (i) => others().map((run) => {
  const said = [percent(winRateOf(i, run)), verdictOf("verdict", i, run), verdictOf("present", i, run)].filter(known).join(", ");
  return others().length > 1 ? `${data.runs[run].name}: ${said}` : said;
}).join("; ");

const COLUMNS = [
  { key: "subject", title: "Subject", of: (i) => facts.subject[i] },
  { key: "relation", title: "Relation", of: (i) => facts.relation[i] },
  { key: "object", title: "Object", of: (i) => facts.object[i] },
  { key: "held", title: "Held", of: (i) => facts.held_from[i] ?? facts.held_until[i],
    text: (i) => periodInWords(facts.start[i], facts.end[i]) },
  { key: "popularity", title: "Popularity", number: true, of: (i) => facts.popularity[i],
    text: (i) => (known(facts.popularity[i]) ? grouped(Math.round(facts.popularity[i])) : "–") },
  { key: "win_rate", title: "W", number: true, of: (i) => winRateOf(i), text: (i) => percent(winRateOf(i)) },
  { key: "robust", title: "Robust (R)", of: (i) => ({ all: 3, some: robustAt(state.run, i).length, none: 0 })[robustStatus(state.run, i)],
    text: (i) => {
      const status = robustStatus(state.run, i);
      return ROBUST[status] + (status === "some" ? robustAt(state.run, i).join(", ") : "");
    } },
  // In the order of how far the first of the others is from the run that is looked at
  { key: "beside", title: data.runs.length > 2 ? "Other runs" : "Other", of: (i) => (known(winRateOf(i)) && known(winRateOf(i, others()[0])) ? winRateOf(i) - winRateOf(i, others()[0]) : null),
    text: besideOf },
].filter(({ key }) => (key !== "popularity" || hasPopularity) && (key !== "beside" || sideBySide));

/** What a fact can be searched by: its labels, and what the run that is looked at answers today. */
const searchedOf = (i) => searched[i] + (known(verdictOf("answer", i)) ? ` ${folded(verdictOf("answer", i))}` : "");

/** What the filters say; problems name the fields that could not be read. */
function readFilters() {
  const problems = [];
  const bound = (id, read, rule) => {
    const text = byId(id).value.trim();
    const value = text ? read(text) : null;
    const bad = value !== null && !Number.isFinite(value);
    byId(id).setAttribute("aria-invalid", String(bad));
    if (bad) problems.push(`“${text}” is not a ${rule}; this bound is ignored.`);
    return bad ? null : value;
  };
  const number = (text) => Number(text.replace(/[, \u00a0]/g, ""));
  const found = {
    words: folded(byId("search").value).split(/\s+/).filter(Boolean),
    relation: byId("relation").value,
    verdict: byId("verdict").value,
    robust: byId("robust").value,
    from: bound("from", typedYear, "year (write 1998, 44 BCE or -44)"),
    to: bound("to", typedYear, "year (write 1998, 44 BCE or -44)"),
    popularFrom: bound("popular-from", number, "number"),
    popularTo: bound("popular-to", number, "number"),
  };
  byId("filter-trouble").textContent = problems.join(" ");
  return found;
}

/** Whether a fact passes. Its period must touch the years asked for; where unknown, it passes only without a bound. */
function passes(i, filters) {
  const { words, relation, verdict, robust, from, to, popularFrom, popularTo } = filters;
  if (words.some((word) => !searchedOf(i).includes(word))) return false;
  if (verdict && verdictOf("verdict", i) !== verdict && verdictOf("present", i) !== verdict) return false;
  if (relation && facts.relation[i] !== relation) return false;
  if (robust && robustStatus(state.run, i) !== robust) return false;
  if (from !== null || to !== null) {
    if (!known(facts.held_from[i]) && !known(facts.held_until[i])) return false;
    if (from !== null && (facts.held_until[i] ?? Infinity) <= onAxis(from)) return false;
    if (to !== null && (facts.held_from[i] ?? -Infinity) >= onAxis(to) + 1) return false;
  }
  if (popularFrom !== null && !(facts.popularity[i] >= popularFrom)) return false;
  if (popularTo !== null && !(known(facts.popularity[i]) && facts.popularity[i] <= popularTo)) return false;
  return true;
}

const collator = new Intl.Collator("en", { sensitivity: "base", numeric: true });

/** Facts in the order asked for; those without a value come last either way. */
function sorted(indices) {
  const column = COLUMNS.find(({ key }) => key === state.sort);
  const keys = new Map(indices.map((i) => [i, column.of(i)]));
  const sign = state.down ? -1 : 1;
  return [...indices].sort((a, b) => {
    const [one, two] = [keys.get(a), keys.get(b)];
    if (!known(one) || !known(two)) return known(two) - known(one) || a - b;
    const order = typeof one === "string" ? collator.compare(one, two) : one - two;
    return sign * order || a - b;
  });
}

function refreshFacts(keepPage = false) {
  const filters = readFilters();
  const passing = facts.id.map((_, i) => i).filter((i) => passes(i, filters));
  state.cards = data.verdicts?.runs[state.run] ? inCards(passing) : null;
  state.order = state.cards ? state.cards.flat() : sorted(passing);
  if (!keepPage) state.page = 0;
  showPage();
}

function rowOf(i, n) {
  const cells = COLUMNS.map((column) => {
    const text = column.text ? column.text(i) : (column.of(i) ?? "–");
    return element("td", { class: [column.key, column.number ? "number" : ""].join(" ").trim(), "data-label": column.title, dir: "auto" }, text);
  });
  const share = winRateOf(i);
  if (known(share)) cells.find((cell) => cell.classList.contains("win_rate")).style.setProperty("--share", `${100 * share}%`);
  return element("tr", { tabindex: n ? -1 : 0, "data-fact": i, "aria-haspopup": "dialog" }, ...cells);
}

function showPage() {
  const all = state.cards ?? state.order;
  const pages = Math.max(1, Math.ceil(all.length / PAGE));
  state.page = Math.min(Math.max(state.page, 0), pages - 1);
  const first = state.page * PAGE;
  const shown = all.slice(first, first + PAGE);
  byId("cards").replaceChildren(...(state.cards ? shown.map(card) : []));
  byId("facts-table").tBodies[0].replaceChildren(...(state.cards ? [] : shown.map(rowOf)));
  for (const part of document.querySelectorAll(".of-table")) part.hidden = Boolean(state.cards);
  for (const part of document.querySelectorAll(".of-cards")) part.hidden = !state.cards;
  const from = state.cards ? "" : `${grouped(first + 1)}–${grouped(first + shown.length)} of `;
  const rest = state.order.length < total ? ` (of ${grouped(total)})` : "";
  byId("count").textContent = state.order.length ? `${from}${grouped(state.order.length)} facts${rest}` : `No fact matches these filters (of ${grouped(total)})`;
  byId("page-of").textContent = `Page ${state.page + 1} of ${pages}`;
  byId("previous-page").disabled = state.page === 0;
  byId("next-page").disabled = state.page === pages - 1;
  for (const header of byId("facts-table").tHead.rows[0].cells) {
    const own = header.dataset.key === state.sort;
    header.setAttribute("aria-sort", own ? (state.down ? "descending" : "ascending") : "none");
  }
}

/** Numbers start with the largest, texts with the first of the alphabet. */
function sortBy(column) {
  state.down = state.sort === column.key ? !state.down : Boolean(column.number) || column.key === "robust";
  state.sort = column.key;
  refreshFacts();
}

function options(id, pairs) {
  byId(id).append(...pairs.map(([value, text]) => element("option", { value }, text)));
}

function moveFocus(row, to) {
  if (!to) return;
  row.tabIndex = -1;
  to.tabIndex = 0;
  to.focus();
}

function startFacts() {
  options("run", data.runs.map((run, i) => [i, run.name]));
  options("level", usedLevels.map((level) => [level, level === "global" ? "all granularities" : level]));
  const relations = [...new Set(facts.relation.filter(known))].sort(collator.compare);
  options("relation", [["", "any"], ...relations.map((name) => [name, name])]);
  options("verdict", [["", "any"], ...(data.verdicts?.kinds ?? []).map((name) => [name, name])]);
  byId("verdict").parentElement.hidden = !data.verdicts;
  byId("run").parentElement.hidden = data.runs.length === 1;
  if (!hasPopularity) state.sort = "win_rate";
  byId("popularity").hidden = !hasPopularity;
  byId("facts-table").tHead.rows[0].append(
    ...COLUMNS.map((column) =>
      element("th", { scope: "col", "data-key": column.key, class: column.number ? "number" : null },
        element("button", { type: "button", click: () => sortBy(column) }, column.title)),
    ),
  );
  const form = byId("filters");
  form.addEventListener("submit", (event) => event.preventDefault());
  form.addEventListener("input", () => {
    state.run = Number(byId("run").value);
    state.level = byId("level").value;
    refreshFacts();
  });
  byId("clear").addEventListener("click", () => {
    for (const id of FILTERS) byId(id).value = ""; // the run that is looked at stays
    refreshFacts();
  });
  for (const [id, step] of [["previous-page", -1], ["next-page", 1]]) {
    byId(id).addEventListener("click", () => {
      state.page += step;
      showPage();
      byId("facts").scrollIntoView();
    });
  }
  const body = byId("facts-table").tBodies[0];
  const open = (row) => row && showFact(Number(row.dataset.fact), state.run);
  body.addEventListener("click", (event) => {
    const row = event.target.closest("tr");
    moveFocus(body.querySelector("tr[tabindex='0']"), row);
    open(row);
  });
  body.addEventListener("keydown", (event) => {
    const row = event.target.closest("tr");
    const rows = [...body.rows];
    const at = rows.indexOf(row);
    const to = { ArrowDown: rows[at + 1], ArrowUp: rows[at - 1], Home: rows[0], End: rows.at(-1) }[event.key];
    if (event.key === "Enter" || event.key === " ") open(row);
    else if (to) moveFocus(row, to);
    else return;
    event.preventDefault();
  });
  refreshFacts();
}
