// The timeline that the page opens with, and what is to be seen in it.

/** Words beside the marks: the period, and the year that the story is about. */
function opened({ fact, time }, { layout }, rows) {
  const [from, until] = [facts.held_from[fact], facts.held_until[fact]];
  const [low, high] = layout.xaxis.range;
  const side = (x, share) => (x < low + share * (high - low) ? "left" : x > high - share * (high - low) ? "right" : "center");
  const notes = [];
  if (known(from) || known(until)) {
    const x = (Math.max(from ?? low, low) + Math.min(until ?? high, high)) / 2;
    notes.push({ text: `held ${plain(periodInWords(facts.start[fact], facts.end[fact]))}`, x, xref: "x", y: 0.01, yref: "y domain", yanchor: "bottom", xanchor: side(x, 0.25), showarrow: false, bgcolor: "@paper", font: { color: "@right" } });
  }
  const row = rows.find(({ date }) => known(time) && date[0] === Number(time) && !date[1]);
  if (row) {
    notes.push({ text: `${row.words}: likelier than<br>a year when it held`, x: row.x, y: row.logp, xref: "x", yref: "y", ax: side(row.x, 0.5) === "left" ? 60 : -60, ay: -42, arrowcolor: "@far", arrowwidth: 1.5, bgcolor: "@paper", font: { color: "@far" } });
  }
  return notes;
}

async function startOpening() {
  const telling = data.telling;
  if (!telling) return;
  const { fact, run } = telling;
  const runs = data.edits ? [run, ...data.runs.map((_, i) => i).filter((i) => i !== run)].slice(0, 3) : [run];
  const made = await timelineChart(fact, runs, ["year"]);
  const { rows } = await timelineOf(fact, "year", run);
  made.layout.annotations.push(...opened(telling, made, rows));
  const label = [facts.subject[fact], facts.relation[fact], facts.object[fact]].map((text) => text ?? "–").join(" | ");
  byId("opening-title").textContent = label;
  byId("opening-why").append(`${telling.why} `, element("a", { href: `#fact=${encodeURIComponent(facts.id[fact])}&run=${run}` }, "All of this fact"));
  byId("opening-prompt").textContent = [promptOf(fact, null), verdictsOf(fact, [run])].filter(Boolean).join(" ");
  byId("opening-scores").append(...(await scoresOf(fact, [run], ["year"])));
  await draw(byId("opening-chart"), made.traces, made.layout);
}
