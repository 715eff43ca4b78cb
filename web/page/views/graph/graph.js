// The graph's part of the main thread: draws it, moves the focus to a box, and steps through the list with the
// arrow keys.

import { Drawing } from "./drawing/drawing.js";

const KEYS = { ArrowDown: 1, ArrowUp: -1 };
const watched = new WeakSet();
let drawing = null;

// Elements that the full-window graph covers cannot be reached; dialogs and messages stay above it.
const ABOVE = "dialog, #toast, script, link, .veil";
let covered = [];

const setFull = (panel, full) => {
  for (const element of covered) element.inert = false;
  covered = [];
  document.documentElement.classList.toggle("graph-is-full", full);
  for (let inner = panel; full && inner !== document.body; inner = inner.parentElement) {
    covered.push(...[...inner.parentElement.children].filter((one) => one !== inner && !one.matches(ABOVE)));
  }
  for (const element of covered) element.inert = true;
};

const isTyping = (target) => target.matches("input, textarea, select");

const watch = (panel, tell) => {
  panel.addEventListener("keydown", (event) => {
    const plain = !event.altKey && !event.ctrlKey && !event.metaKey;
    if (event.key.toLowerCase() === "f" && plain && !isTyping(event.target)) tell("full", {});
    if (event.key === "Enter" && event.shiftKey && event.target.closest(".graph-search")) {
      event.preventDefault(); // Enter alone submits the form, which goes on
      tell("step", { by: "-1" });
    }
    if (event.key === "Escape" && event.target.closest(".graph-inside")) tell("close", {});
    else if (event.key === "Escape" && panel.querySelector(".graph-full") && !panel.querySelector(".graph-inside")) tell("full", {});
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

export const show = (panel, { focus, full, ...data }, tell) => {
  if (!watched.has(panel)) watch(panel, tell);
  watched.add(panel);
  if (full !== undefined) setFull(panel, full);
  const host = panel.querySelector("#graph-drawing");
  if (host && drawing?.host !== host) drawing = new Drawing(host, tell);
  if (host) drawing.show(data);
  if (focus === "drawing") drawing?.focus();
  else if (focus === "first") panel.querySelector(".graph-box > button")?.focus();
  else if (focus) document.getElementById(focus)?.focus();
};
