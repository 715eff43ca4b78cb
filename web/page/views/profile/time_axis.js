// A chart along time: zoomed by wheel, keys and buttons, dragged, with a ruler of the visible part.
// The zoom belongs to the page, not to Python: it is set again after a redraw.

const MOST = 4096; // times as wide as the box
const STEP = 1.5;
const DRAG = 4; // pixels before a press counts as a drag
const APART = 84; // least pixels between two marks of the ruler
const ROOM = 56; // pixels for the text of a mark
const zooms = new Map(); // by id of the box

const zoomOf = (box) => zooms.get(box.id) ?? 1;
const totalOf = (box) => Number(box.dataset.total);

// Returns microseconds as text, with as many digits as steps of `step` need.
const timeText = (time, step) => {
  const [scale, unit] = step >= 1e6 ? [1e6, "s"] : step >= 1e3 ? [1e3, "ms"] : step >= 1 ? [1, "µs"] : [1e-3, "ns"];
  return `${Math.round(time / scale).toLocaleString("en")} ${unit}`;
};

const stepOf = (least) => {
  const power = 10 ** Math.floor(Math.log10(least));
  return [1, 2, 5, 10].map((one) => one * power).find((one) => one >= least);
};

const drawRuler = (box) => {
  const ruler = document.getElementById(box.id.replace("-box", "-ruler"));
  if (!ruler || !box.clientWidth) return;
  const perPixel = totalOf(box) / (box.clientWidth * zoomOf(box));
  const step = stepOf(APART * perPixel);
  const marks = [];
  for (let mark = Math.ceil(box.scrollLeft * perPixel / step); mark * step / perPixel - box.scrollLeft < box.clientWidth; mark += 1) {
    if (mark * step > totalOf(box)) break;
    if (box.clientWidth - (mark * step / perPixel - box.scrollLeft) < ROOM) break;
    const line = document.createElement("span");
    line.style.left = `${mark * step / perPixel - box.scrollLeft}px`;
    line.textContent = timeText(mark * step, step);
    marks.push(line);
  }
  ruler.replaceChildren(...marks);
};

export const apply = (box) => {
  box.querySelector("svg").style.width = `${100 * zoomOf(box)}%`;
  drawRuler(box);
};

// Zooms about a pixel of the box, which stays in place.
export const zoom = (box, by, at = box.clientWidth / 2) => {
  const before = zoomOf(box);
  const after = Math.min(MOST, Math.max(1, before * by));
  zooms.set(box.id, after);
  const left = (box.scrollLeft + at) * (after / before) - at;
  apply(box);
  box.scrollLeft = left;
  drawRuler(box);
};

export const fit = (box) => {
  zooms.delete(box.id);
  apply(box);
};

export const pan = (box, share) => { box.scrollLeft += share * box.clientWidth; };

// The keys of Perfetto, and those of every map.
export const useKey = (box, key) => {
  const actions = {
    w: () => zoom(box, STEP), s: () => zoom(box, 1 / STEP), a: () => pan(box, -0.2), d: () => pan(box, 0.2),
    "+": () => zoom(box, STEP), "=": () => zoom(box, STEP), "-": () => zoom(box, 1 / STEP), 0: () => fit(box),
  };
  const action = actions[key.toLowerCase()];
  action?.();
  return Boolean(action);
};

export const useButton = (box, name) => {
  if (name === "fit") fit(box);
  else zoom(box, name === "in" ? 2 : 0.5);
};

export const watchAxis = (panel) => {
  let held = null; // {box, x, left, moved} while a pointer drags
  const boxOf = (target) => target.closest?.(".profile-box[data-total]");
  panel.addEventListener("wheel", (event) => {
    const box = boxOf(event.target);
    if (!box || (!event.ctrlKey && !event.metaKey && document.activeElement !== box)) return;
    if (Math.abs(event.deltaX) > Math.abs(event.deltaY)) return; // the box scrolls
    event.preventDefault();
    const pixels = Math.max(-240, Math.min(240, event.deltaY * (event.deltaMode ? 20 : 1)));
    zoom(box, Math.exp(-pixels / 320), event.clientX - box.getBoundingClientRect().left);
  }, { passive: false });
  panel.addEventListener("pointerdown", (event) => {
    const box = boxOf(event.target);
    if (box && !event.button && event.pointerType !== "touch") held = { box, x: event.clientX, left: box.scrollLeft, moved: false };
  });
  addEventListener("pointermove", (event) => {
    if (!held) return;
    held.moved ||= Math.abs(event.clientX - held.x) > DRAG;
    if (held.moved) held.box.scrollLeft = held.left - (event.clientX - held.x);
  });
  let dragged = false; // then the click that follows is not meant for a bar
  for (const end of ["pointerup", "pointercancel"]) {
    addEventListener(end, () => {
      dragged = Boolean(held?.moved);
      held = null;
    });
  }
  panel.addEventListener("click", (event) => {
    if (dragged && boxOf(event.target)) event.stopPropagation();
    dragged = false;
  }, true);
  panel.addEventListener("scroll", ({ target }) => { if (boxOf(target) === target) drawRuler(target); }, true);
  const sized = new ResizeObserver(() => panel.querySelectorAll(".profile-box[data-total]").forEach(drawRuler));
  sized.observe(panel);
};
