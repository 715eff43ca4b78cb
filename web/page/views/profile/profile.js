// The profile's part of the main thread: shows the bar under the pointer, steps through bars with the arrow
// keys, zooms the timeline, and opens traces in Perfetto.

import { openTab, sendTrace } from "./perfetto.js";
import { apply, useButton, useKey, watchAxis } from "./time_axis.js";

const KEYS = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: 1, ArrowUp: -1, Home: -Infinity, End: Infinity };
const watched = new WeakSet();

const look = (box, bar) => {
  box.querySelector(".looked-at")?.classList.remove("looked-at");
  bar.classList.add("looked-at");
  box.closest(".profile-charted").querySelector(".profile-told").textContent = bar.textContent;
};

// Scrolls to a bar; of one that is wider than the box, to its start.
const bringIntoSight = (box, bar) => {
  const within = box.getBoundingClientRect();
  const at = bar.getBoundingClientRect();
  if (at.left < within.left || at.left > within.right - 24) box.scrollLeft += at.left - within.left - 24;
};

// After a redraw no bar is selected, and the text may be of another run.
const forget = (panel) => {
  for (const told of panel.querySelectorAll(".profile-told")) {
    if (!told.closest(".profile-charted").querySelector(".looked-at")) told.textContent = told.dataset.hint;
  }
};

export const show = (panel, { perfetto }, tell) => {
  forget(panel);
  panel.querySelectorAll(".profile-box[data-total]").forEach(apply);
  if (perfetto) sendTrace(perfetto).then((sent) => tell("perfetto_sent", { sent }));
  if (watched.has(panel)) return;
  watched.add(panel);
  watchAxis(panel);
  panel.addEventListener("click", ({ target }) => {
    const [zooms, opens] = [target.closest("[data-zoom]"), target.closest("[data-perfetto]")];
    const box = panel.querySelector(".profile-box[data-total]");
    if (zooms && box) useButton(box, zooms.dataset.zoom);
    if (!opens) return;
    openTab();
    tell("open_perfetto", {});
  });
  panel.addEventListener("pointerover", ({ target }) => {
    const bar = target.closest?.(".profile-box rect");
    if (bar) look(bar.closest(".profile-box"), bar);
  });
  panel.addEventListener("keydown", (event) => {
    const step = KEYS[event.key];
    if (event.key === "Enter" && event.target.matches(".profile-box")) {
      event.target.querySelector(".looked-at")?.dispatchEvent(new MouseEvent("click", { bubbles: true }));
    }
    if (!event.target.matches(".profile-box") || event.altKey || event.ctrlKey || event.metaKey) return;
    if (event.target.dataset.total && useKey(event.target, event.key)) event.preventDefault();
    if (step === undefined) return;
    event.preventDefault();
    const bars = [...event.target.querySelectorAll("rect")];
    if (!bars.length) return;
    const now = bars.findIndex((bar) => bar.classList.contains("looked-at"));
    const next = bars[Math.max(0, Math.min(bars.length - 1, now + step))];
    look(event.target, next);
    bringIntoSight(event.target, next);
  });
};
