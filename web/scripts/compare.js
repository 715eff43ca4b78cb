// A picture over the input picture: a slider moves the edge between them. Dragging on the pictures does, too,
// unless they are enlarged: then it moves them.

import { isZoomed } from "./zoom.js";

const setEdge = (box, share) => {
  box.querySelector(".compare-pictures").style.setProperty("--edge", `${share}%`);
};

export const watchComparisons = () => {
  addEventListener("input", (event) => {
    if (event.target.matches?.(".compare-edge")) setEdge(event.target.closest(".compare-box"), event.target.value);
  });
  const drag = (event) => {
    const pictures = event.target.closest?.(".compare-pictures");
    if (!pictures || !(event.buttons & 1) || isZoomed(pictures)) return;
    event.preventDefault();
    const { left, width } = pictures.getBoundingClientRect();
    const share = Math.round(Math.min(Math.max((100 * (event.clientX - left)) / width, 0), 100));
    pictures.closest(".compare-box").querySelector(".compare-edge").value = share;
    setEdge(pictures.closest(".compare-box"), share);
  };
  addEventListener("pointerdown", drag);
  addEventListener("pointermove", drag);
  addEventListener("dragstart", (event) => { if (event.target.closest?.(".compare-pictures")) event.preventDefault(); });
};
