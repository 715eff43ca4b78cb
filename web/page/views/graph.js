// What only the main thread can do for the graph: the focus goes to the box that was asked for,
// or the first of another page, and arrow keys go from box to box.

const KEYS = { ArrowDown: 1, ArrowUp: -1 };
const watched = new WeakSet();

const moveByKeys = (panel) => panel.addEventListener("keydown", (event) => {
  const boxes = [...panel.querySelectorAll(".graph-box > button")];
  const at = boxes.indexOf(event.target);
  if (at < 0 || !(event.key in KEYS) || event.altKey || event.ctrlKey || event.metaKey) return;
  event.preventDefault();
  boxes[at + KEYS[event.key]]?.focus();
});

export const show = (panel, { focus }) => {
  if (!watched.has(panel)) moveByKeys(panel);
  watched.add(panel);
  if (focus === "first") panel.querySelector(".graph-box > button")?.focus();
  else if (focus) document.getElementById(focus)?.focus();
};
