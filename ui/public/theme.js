// Runs before the first paint, so that a chosen theme does not flash. Not a module and not inline:
// modules run after the first paint, and the content security policy permits no inline script.
try {
  const theme = localStorage.getItem("tacho.theme");
  if (theme === "light" || theme === "dark") {
    document.documentElement.dataset.theme = theme;
  }
} catch {
  // Storage is blocked: the system's theme applies.
}
