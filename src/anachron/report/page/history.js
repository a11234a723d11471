// The checks of a history: W and the number of stale facts by date, a line a label.

async function startHistory() {
  if (!data.history) return;
  const panels = [["win_rate", "y", "W"], ["stale", "y2", "stale facts"]];
  const traces = data.history.flatMap((run, i) =>
    panels.map(([name, axis, words], panel) => ({
      type: "scatter", mode: "lines+markers", name: plain(run.name), legendgroup: `${i}`, x: run.dates, y: run[name],
      yaxis: axis, showlegend: !panel && data.history.length > 1, line: { color: `@${i % 8}` }, text: run.gate.map(plain),
      cliponaxis: false,
      hovertemplate: `%{x}<br>${words} %{y}<br>%{text}<extra>${plain(run.name)}</extra>`,
    })),
  );
  const most = Math.max(...data.history.flatMap((run) => run.stale.map((count) => count ?? 0)));
  await draw(byId("history-chart"), traces, {
    height: 340, xaxis: { type: "date", anchor: "y2" },
    yaxis: { domain: [0.58, 1], range: [0, 1.05], tickformat: ".0%", title: { text: "mean W" } },
    yaxis2: { domain: [0, 0.42], rangemode: "tozero", ...(most < 6 && { dtick: 1 }), title: { text: "stale facts" } },
  });
}
