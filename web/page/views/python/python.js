// The console's part of the main thread: Ctrl Enter runs the cell.

const watched = new WeakSet();

export const show = (panel) => {
  if (watched.has(panel)) return;
  watched.add(panel);
  panel.addEventListener("keydown", (event) => {
    if (event.key !== "Enter" || !(event.ctrlKey || event.metaKey) || !event.target.matches("textarea")) return;
    event.preventDefault();
    event.target.closest("form").requestSubmit();
  });
};
