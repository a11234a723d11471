// Colours of charts in the light and the dark theme. Charts name them (@0, @ink); here the names get their values.

const LIGHT = {
  ink: "#1b1f24", muted: "#8a929c", grid: "#e3e6ea", paper: "#ffffff", held: "rgba(0,114,178,0.14)",
  lost: "#b3430a", far: "#d0006f", right: "#0072b2", wrong: "#6b737d", open: "#a87400", prior: "#00684d",
  series: ["#0072b2", "#d55e00", "#009e73", "#b0508a", "#3b8ec2", "#a87400", "#5b4bb5", "#70655c"],
};
const DARK = {
  ink: "#e6e9ed", muted: "#7d8792", grid: "#343b44", paper: "#1a1f25", held: "rgba(86,180,233,0.22)",
  lost: "#ff9248", far: "#ff6ec7", right: "#56b4e9", wrong: "#98a2ad", open: "#f0c23b", prior: "#35d0a0",
  series: ["#56b4e9", "#ff9248", "#35d0a0", "#e79ac6", "#8fb8ff", "#f0c23b", "#b9a7ff", "#c9b8a8"],
};
const dark = window.matchMedia("(prefers-color-scheme: dark)");
const narrow = window.matchMedia("(max-width: 640px)");
let printing = false;

const colours = () => (dark.matches && !printing ? DARK : LIGHT);

/** A copy of a value in which names of colours are replaced. */
function coloured(value) {
  if (typeof value === "string" && value.startsWith("@")) {
    const name = value.slice(1);
    return /^\d+$/.test(name) ? colours().series[Number(name)] : colours()[name];
  }
  if (Array.isArray(value)) return value.map(coloured);
  if (value && typeof value === "object") {
    return Object.fromEntries(Object.entries(value).map(([key, inner]) => [key, coloured(inner)]));
  }
  return value;
}

/** A title of an axis in as many lines as a phone needs. */
const inLines = (text) => (narrow.matches ? (text.match(/.{1,34}(?:\s|$)/g) ?? [text]).join("<br>") : text);

/** What every chart shares, under its own layout. */
function fullLayout(layout, traces) {
  const { ink, grid, paper } = colours();
  const { rows, ...own } = layout;
  const named = traces.filter((trace) => trace.showlegend !== false && trace.type !== "heatmap").length;
  const below = named > 1 && own.showlegend !== false;
  const axis = (given) => ({
    gridcolor: grid, zerolinecolor: grid, linecolor: grid, automargin: true, ...given,
    title: { standoff: 12, ...given?.title, text: inLines(given?.title?.text ?? "") },
  });
  const axes = Object.keys(own).filter((name) => /^[xy]axis\d*$/.test(name));
  const all = Object.fromEntries([...new Set([...axes, "xaxis", "yaxis"])].map((name) => [name, axis(own[name])]));
  if (rows) Object.assign(all.yaxis, { autorange: false, range: [rows - 0.5, -0.5] }); // first at the top, with room
  const height = rows ? 130 + 30 * Math.max(rows, 2) : 400;
  return {
    height: height + (below ? 21 * Math.ceil(named / (narrow.matches ? 1 : 4)) : 0), // the legend takes its own room
    font: { family: "system-ui, sans-serif", size: 13, color: ink },
    paper_bgcolor: paper, plot_bgcolor: paper, hovermode: "closest", dragmode: narrow.matches ? false : "zoom",
    hoverlabel: { align: "left" }, margin: { l: 60, r: narrow.matches ? 12 : 44, t: 16, b: 56 }, showlegend: below,
    modebar: { orientation: "v", bgcolor: "rgba(0,0,0,0)", color: ink, activecolor: ink },
    legend: { orientation: "h", x: 0, y: 1, yanchor: "bottom", xanchor: "left" },
    ...(printing ? { width: 660, autosize: false } : { autosize: true }),
    ...own, ...all,
  };
}

const config = () => ({
  responsive: true, displayModeBar: narrow.matches || printing ? false : "hover", displaylogo: false, plotlyServerURL: "",
  modeBarButtonsToRemove: ["lasso2d", "select2d", "zoomIn2d", "zoomOut2d", "autoScale2d", "pan2d", "zoom2d"],
});
const drawn = new Map(); // element -> what it shows, by names of colours

const plotly = once(async () => {
  const code = new TextDecoder().decode(await inflate(byId("plotly").textContent));
  byId("plotly").remove();
  document.head.append(element("script", {}, code));
  return window.Plotly;
});

/** Draw traces and layout (with names of colours) in an element, now and again when the theme changes. */
async function draw(target, traces, layout) {
  const Plotly = await plotly();
  drawn.set(target, [traces, layout]);
  await Plotly.react(target, coloured(traces), fullLayout(coloured(layout), traces), config());
  return target;
}

/** Draw everything that is there again: for another theme or for paper. */
function redraw() {
  for (const [target, [traces, layout]] of drawn) {
    if (target.isConnected && target.offsetParent !== null) draw(target, traces, layout).catch(trouble);
  }
}

dark.addEventListener("change", redraw);
narrow.addEventListener("change", redraw);
for (const [event, state] of [["beforeprint", true], ["afterprint", false]]) {
  window.addEventListener(event, () => {
    printing = state;
    redraw();
  });
}
