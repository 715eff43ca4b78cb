// The task view's part of the main thread: what the pointer is on is marked in the picture and in the list, clicks
// in the picture become points, and the picture is saved with what is drawn over it.

const watched = new WeakSet();

const mark = (panel, item) => {
  panel.querySelectorAll("[data-item]").forEach((one) => one.classList.toggle("marked", one.dataset.item === item));
};

const watch = (panel, tell) => {
  watched.add(panel);
  let item;
  const point = (one) => {
    item = one;
    mark(panel, item);
  };
  panel.addEventListener("pointerover", ({ target }) => point(target.closest("[data-item]")?.dataset.item));
  panel.addEventListener("pointerleave", () => point());
  // A new answer is drawn without the mark, below a pointer that has not moved.
  new MutationObserver(() => {
    if (item !== undefined && panel.querySelector(`[data-item="${item}"]:not(.marked)`)) mark(panel, item);
  }).observe(panel, { subtree: true, childList: true, attributeFilter: ["class"] });
  panel.addEventListener("click", (event) => {
    const image = event.target.closest("[data-points]")?.querySelector("img");
    if (!image) return;
    const box = image.getBoundingClientRect();
    tell("point", { x: (event.clientX - box.left) / box.width, y: (event.clientY - box.top) / box.height });
  });
};

const loaded = (src) => new Promise((resolve, reject) => {
  const image = new Image();
  image.onload = () => resolve(image);
  image.onerror = () => reject(new Error("the picture cannot be drawn"));
  image.src = src;
});

// Draws the picture and the SVG over it onto a canvas, in the picture's own size.
const save = async (stage, name) => {
  const image = stage.querySelector("img");
  const over = stage.querySelector("svg").cloneNode(true);
  const canvas = new OffscreenCanvas(image.naturalWidth, image.naturalHeight);
  over.setAttribute("width", canvas.width);
  over.setAttribute("height", canvas.height);
  const context = canvas.getContext("2d");
  context.drawImage(image, 0, 0);
  const text = new XMLSerializer().serializeToString(over);
  context.drawImage(await loaded(`data:image/svg+xml,${encodeURIComponent(text)}`), 0, 0);
  const href = URL.createObjectURL(await canvas.convertToBlob());
  Object.assign(document.createElement("a"), { href, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(href), 60000);
};

export const show = async (panel, data, tell) => {
  if (!watched.has(panel)) watch(panel, tell);
  const stage = panel.querySelector("#task-stage");
  if (data.save && stage) await save(stage, data.save);
};
