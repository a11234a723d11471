// The facts of a check as cards: one a subject and relation, with two strips over the years, who it was and whom the
// model finds likeliest, and below them what the check says of each fact.

const COLOURS = 6, PATTERNS = 4; // of style.css; no two of the first twelve objects of a card look alike

/** The subject and relation of a fact, of which a card tells. */
const cardOf = (i) => JSON.stringify([facts.subject[i], facts.relation[i]]);

/** Facts by card, the most urgent first: in a card, and cards by their first. Facts of equal urgency keep their order. */
function inCards(indices) {
  const urgency = (i) => verdictOf("rank", i) ?? Infinity;
  const cards = new Map();
  for (const i of [...indices].sort((a, b) => (urgency(a) === urgency(b) ? a - b : urgency(a) - urgency(b)))) {
    cards.set(cardOf(i), [...(cards.get(cardOf(i)) ?? []), i]);
  }
  return [...cards.values()];
}

const swatch = (n, extra = "") => element("span", { class: `hue c${n % COLOURS} p${n % PATTERNS} ${extra}`.trim() });

/** A piece of a strip, for each of its objects a part as high as the others. */
function pieces([from, until, objects, wrong], [low, high], names) {
  return objects.map((n, at) => {
    const made = swatch(n, wrong ? "wrong" : "");
    made.title = names[n] + (Number.isInteger(from) && Number.isInteger(until) ? `, ${yearsOf(from, until)}` : "");
    const share = (x) => (100 * (Math.min(Math.max(x, low), high) - low)) / (high - low);
    Object.assign(made.style, { left: `${share(from)}%`, width: `${share(until) - share(from)}%`, top: `${(100 * at) / objects.length}%`, height: `${100 / objects.length}%` });
    return made;
  });
}

/** Whole years of an axis: `1993 to 2019`. */
function yearsOf(from, until) {
  const [first, last] = [from, until - 1].map((at) => yearInWords(at > 0 ? at : at - 1));
  return first === last ? first : `${first} to ${last}`;
}

/** Both strips of a subject and relation; of one that has no scores for two objects that above alone. */
function stripsOf({ objects, held, likeliest, asked, today }) {
  const range = [Math.floor(held[0][0]), Math.ceil(held.at(-1)[1])], marks = axisOf(range).filter(([left]) => left < 95); // behind it is today
  const strip = (name, rows, now) => [
    element("span", { class: "name" }, name), element("span", { class: "track" }, ...rows.flatMap((row) => pieces(row, range, objects))),
    element("span", { class: "track now" }, ...pieces([0, 1, now], [0, 1], objects)),
  ];
  const told = (rows) => rows.map(([from, until, of]) => `${of.map((n) => objects[n]).join(" and ")} ${yearsOf(Math.floor(from), Math.ceil(until))}`).join(", ");
  const below = likeliest.length || known(today[1]);
  const words = `Who it was: ${told(held)}.${likeliest.length ? ` Whom the model finds likeliest: ${told(likeliest)}.` : ""}`;
  const years = likeliest.reduce((sum, [from, until]) => sum + until - from, 0);
  return element("div", {},
    element("div", { class: "strips", role: "img", "aria-label": words },
      ...strip("who it was", held, today[0]),
      ...(below ? strip(data.asked[state.run] ? "named" : "likeliest", likeliest, known(today[1]) ? [today[1]] : []) : []),
      element("span", {}), element("span", { class: "ticks" }, ...ticksAt(marks, true)), element("span", { class: "tick" }, "today")),
    element("ul", { class: "legend" }, ...objects.map((name, n) => element("li", { dir: "auto" }, swatch(n), ` ${name}`))),
    likeliest.length && !data.asked[state.run] && asked < years ? element("p", { class: "hint" }, `Two or more of them were asked about in ${asked} of these ${years} years.`) : "");
}

/** What a check says of one fact, in a line that opens its timeline. */
function memberOf(i, at) {
  const kind = data.verdicts.kinds[verdictOf("rank", i)];
  const verdict = verdictOf("verdict", i);
  return element("li", { "data-fact": i },
    at < 0 ? "" : swatch(at),
    element("button", { type: "button", class: "opens", dir: "auto", "aria-haspopup": "dialog", click: () => showFact(i, state.run) }, facts.object[i] ?? "–"),
    ` ${periodInWords(facts.start[i], facts.end[i])} `,
    known(kind) ? element("b", { class: `kind ${kind.replace(" ", "-")}` }, kind) : "",
    known(verdict) ? ` ${kind === verdict ? "" : `With dates: ${verdict}. `}${verdictOf("told", i).replaceAll(" %", "\u00a0%")}` : " not part of this check",
    sideBySide ? element("span", { class: "hint" }, ` ${others().length > 1 ? "Other runs" : data.runs[others()[0]].name}: ${besideOf(i)}.`) : "");
}

function card(members) {
  const [first] = members;
  const strips = data.verdicts.runs[state.run].successions.find(({ facts: of }) => of.includes(first));
  const today = [...new Set(members.map((i) => verdictOf("today", i)).filter(known))];
  return element("li", { class: "card" },
    element("h3", { dir: "auto" }, [facts.subject[first], facts.relation[first]].map((text) => text ?? "–").join(", ")),
    ...today.map((text) => element("p", { class: "today", dir: "auto" }, text)),
    strips ? stripsOf(strips) : "",
    element("ul", { class: "members" }, ...members.map((i) => memberOf(i, strips ? strips.facts.indexOf(i) : -1))));
}
