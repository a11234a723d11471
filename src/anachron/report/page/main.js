// The page puts itself together from its data.

window.addEventListener("error", ({ error, message }) => trouble(error ?? message));
window.addEventListener("unhandledrejection", ({ reason }) => trouble(reason));

try {
  startFacts();
  startTimeline();
  startAnalyses();
  startHistory().catch(trouble);
  startWorst()
    .then(() => (document.documentElement.dataset.ready = "true"))
    .catch(trouble);
} catch (error) {
  trouble(error);
}
