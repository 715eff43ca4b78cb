// The graph's part of the main thread: draws it, moves the focus to a box, and steps through the list with the
// arrow keys.

import { Drawing } from "./drawing/drawing.js";

const KEYS = { ArrowDown: 1, ArrowUp: -1 };
const watched = new WeakSet();
let drawing = null;

const watch = (panel, tell) => {
  panel.addEventListener("keydown", (event) => {
    if (event.key === "Escape" && event.target.closest(".graph-inside")) tell("close", {});
    const boxes = [...panel.querySelectorAll(".graph-box > button")];
    const at = boxes.indexOf(event.target);
    if (at < 0 || !(event.key in KEYS) || event.altKey || event.ctrlKey || event.metaKey) return;
    event.preventDefault();
    boxes[at + KEYS[event.key]]?.focus();
  });
  panel.addEventListener("click", ({ target }) => {
    const tool = target.closest("[data-draw]");
    if (tool) drawing?.use(tool.dataset.draw);
  });
};

export const show = (panel, { focus, ...data }, tell) => {
  if (!watched.has(panel)) watch(panel, tell);
  watched.add(panel);
  const host = panel.querySelector("#graph-drawing");
  if (host && drawing?.host !== host) drawing = new Drawing(host, tell);
  if (host) drawing.show(data);
  if (focus === "drawing") drawing?.focus();
  else if (focus === "first") panel.querySelector(".graph-box > button")?.focus();
  else if (focus) document.getElementById(focus)?.focus();
};
