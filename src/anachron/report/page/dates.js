// Dates as places on an axis of years (0.5 is the middle of 1 BCE) and in words. There is no year 0.

const MONTHS = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
const DAYS = [31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];

/** The year without the gap at 0, as the axis has it: 1 BCE is 0. */
const onAxis = (year) => (year > 0 ? year : year + 1);
const isLeap = (astronomical) =>
  astronomical % 4 === 0 && (astronomical % 100 !== 0 || astronomical % 400 === 0);

/** Where the middle of a date lies; month and day are 0 where the date is coarser. */
function middleOf(year, month, day) {
  const at = onAxis(year);
  if (!month) return at + 0.5;
  const lengths = DAYS.map((days, i) => (i === 1 && isLeap(at) ? 29 : days));
  const before = lengths.slice(0, month - 1).reduce((sum, days) => sum + days, 0);
  const inMonth = day ? day - 0.5 : lengths[month - 1] / 2;
  return at + (before + inMonth) / (isLeap(at) ? 366 : 365);
}

const yearInWords = (year) => (year > 0 ? String(year) : `${-year} BCE`);

function inWords(year, month, day) {
  const parts = [day ? String(day) : null, month ? MONTHS[month - 1] : null, yearInWords(year)];
  return parts.filter(known).join(" ");
}

/** `-0044-03` as `Mar 44 BCE`; null as an open end. */
function textInWords(text) {
  const found = /^([+-]?\d+)(?:-(\d+))?(?:-(\d+))?$/.exec(text ?? "");
  return found ? inWords(Number(found[1]), Number(found[2] ?? 0), Number(found[3] ?? 0)) : null;
}

function periodInWords(start, end) {
  if (!known(start) && !known(end)) return "–";
  if (!known(end)) return `${textInWords(start)} on`;
  return `${textInWords(start) ?? "…"} – ${textInWords(end) ?? "…"}`;
}

/** A year that a person typed: 1998, -44, 44 BCE, 44 BC. NaN when it is none. */
function typedYear(text) {
  const found = /^\s*([+-]?\d+)\s*(bce?|b\.c\.(?:e\.)?|ce|ad)?\s*$/i.exec(text);
  if (!found) return NaN;
  const year = Number(found[1]) * (/^b/i.test(found[2] ?? "") ? -1 : 1);
  return year === 0 ? NaN : year;
}

/** Ticks of an axis of years: round years, their names with BCE, and months where less than three years are shown. */
function yearTicks(low, high, most) {
  const span = high - low;
  if (span < most / 4) {
    const step = [1, 2, 3, 6].find((months) => (span * 12) / months <= most) ?? 12;
    const marks = [];
    for (let n = Math.ceil((low * 12) / step) * step; n <= high * 12; n += step) {
      const at = Math.floor(n / 12);
      marks.push([n / 12, `${MONTHS[n - 12 * at]} ${yearInWords(at > 0 ? at : at - 1)}`]);
    }
    return marks;
  }
  let step = 1;
  for (let n = 0; span / step > most; n++) step = [1, 2, 5][n % 3] * 10 ** Math.floor(n / 3);
  const marks = [];
  for (let year = Math.ceil((low - 1) / step) * step; year <= high; year += step) {
    const named = year === 0 ? 1 : year;
    const at = onAxis(named);
    if (at >= low && at <= high && marks.at(-1)?.[0] !== at) marks.push([at, yearInWords(named)]);
  }
  return marks;
}
