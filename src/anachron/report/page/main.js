// The page puts itself together from its data.

window.addEventListener("error", ({ error, message }) => trouble(error ?? message));
window.addEventListener("unhandledrejection", ({ reason }) => trouble(reason));

try {
  startFacts();
  startTimeline();
  startAnalyses();
  startWorst()
    .then(() => (document.documentElement.dataset.ready = "true"))
    .catch(trouble);
} catch (error) {
  trouble(error);
}
