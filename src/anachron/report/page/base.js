// Small tools: elements without HTML strings, and the inverse of pack.py.

const byId = (id) => document.getElementById(id);

/** An element with attributes (a function value is a listener) and children; texts are never read as HTML. */
function element(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === "function") made.addEventListener(name, value);
    else if (value !== null && value !== undefined && value !== false) made.setAttribute(name, value === true ? "" : value);
  }
  made.append(...children.filter((child) => child !== null && child !== undefined));
  return made;
}

/** The same for a part of a drawing. */
function svg(tag, attributes) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  return made;
}

/** Bytes of a base64 text of a zlib stream. */
async function inflate(base64) {
  const raw = Uint8Array.from(atob(base64), (character) => character.charCodeAt(0));
  const stream = new Blob([raw]).stream().pipeThrough(new DecompressionStream("deflate"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

/** Numbers of a packed array: bytes by plane, little-endian, perhaps as differences. */
async function unpack(packed) {
  const planes = await inflate(packed.data);
  const width = Number(packed.type.slice(1));
  const count = planes.length / width;
  const bytes = new Uint8Array(planes.length);
  for (let plane = 0; plane < width; plane++) {
    for (let i = 0; i < count; i++) bytes[i * width + plane] = planes[plane * count + i];
  }
  const view = new DataView(bytes.buffer);
  const read = { i1: "getInt8", i2: "getInt16", i4: "getInt32", f8: "getFloat64" }[packed.type];
  const numbers = new Float64Array(count);
  for (let i = 0; i < count; i++) {
    numbers[i] = view[read](i * width, true) + (packed.differences && i ? numbers[i - 1] : 0);
  }
  return numbers;
}

/** Plotly reads a little HTML in its texts; a label is to be shown as it is. */
const plain = (text) => String(text).replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;");

const known = (value) => value !== null && value !== undefined;
const percent = (share, digits = 1) => (known(share) ? `${(100 * share).toFixed(digits)}\u00a0%` : "–");
const grouped = (number) => number.toLocaleString("en-US");
/** Lower case without accents, so that a search finds Sao for São. */
const folded = (text) => text.normalize("NFD").replace(/[\u0300-\u036f]/g, "").toLowerCase();

/** Say in the page that something went wrong, rather than only in a console. */
function trouble(error) {
  byId("trouble").textContent = `Part of this page could not be shown: ${error.message ?? error}`;
  byId("trouble").hidden = false;
  console.error(error);
}

const data = JSON.parse(byId("data").textContent);

/** Run something once, and give its promise to whoever asks again. */
function once(make) {
  let promise = null;
  return () => (promise ??= make());
}

/** All contexts, with where each fact's begin. */
const contexts = once(async () => {
  const names = ["counts", "year", "month", "day", "alpha", "kind"];
  const arrays = await Promise.all(names.map((name) => unpack(data.contexts[name])));
  const found = Object.fromEntries(names.map((name, i) => [name, arrays[i]]));
  found.first = new Float64Array(found.counts.length + 1);
  found.counts.forEach((count, i) => (found.first[i + 1] = found.first[i] + count));
  return found;
});

/** Scores and flags of each run, unpacked when first asked for. */
const scores = data.contexts.scores.map((packed) =>
  once(async () => ({ logp: await unpack(packed.logp), flags: await unpack(packed.flags) })),
);

const LEVELS = ["year", "month", "day"];
const STATUSES = ["correct", "incorrect", "transitional", "discarded", "none"];

/** The contexts of a fact at one granularity under one run: {prior, rows of {date, x, words, status, alpha, logp, lost, far}}. */
async function timelineOf(fact, level, run) {
  const [all, own] = await Promise.all([contexts(), scores[run]()]);
  const found = { prior: null, weakest: null, rows: [] };
  for (let i = all.first[fact]; i < all.first[fact + 1]; i++) {
    const kind = all.kind[i];
    if (kind >> 4 !== LEVELS.indexOf(level) || own.flags[i] & 2) continue;
    const status = STATUSES[kind & 7];
    const logp = own.logp[i] / Math.round(1 / data.contexts.nats);
    if (status === "none") {
      found.prior = logp;
      continue;
    }
    if (status === "correct") found.weakest = Math.min(found.weakest ?? Infinity, logp);
    const lost = (own.flags[i] & 1) === 1;
    const date = [all.year[i], all.month[i], all.day[i]];
    found.rows.push({
      date, x: middleOf(...date), words: inWords(...date), status, alpha: all.alpha[i] * data.contexts.alpha_step, logp,
      lost, far: lost && (kind & 8) === 8,
    });
  }
  return found;
}
