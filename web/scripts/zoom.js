// Pictures that can be enlarged: by wheel (with Ctrl, or once the picture has the focus), two fingers, keys and
// double click; dragging moves an enlarged one. The first enlargement of a picture that is shown with fewer
// pixels than it has asks Python for all of them.

const LARGEST = 32;
const STEP = 1.4; // of a key
const MOVE = 48; // pixels of an arrow key
const PIXELS = 3; // so many screen pixels per pixel show the pixels' edges
const ARROWS = { ArrowLeft: [1, 0], ArrowRight: [-1, 0], ArrowUp: [0, 1], ArrowDown: [0, -1] };

const zooms = new WeakMap(); // element -> { scale, x, y, pointers, full }
const boxOf = (target) => target.closest?.("[data-zoom]") ?? null;
const stateOf = (box) => {
  if (!zooms.has(box)) zooms.set(box, { scale: 1, x: 0, y: 0, pointers: new Map(), full: "" });
  return zooms.get(box);
};

export const isZoomed = (element) => {
  const box = boxOf(element);
  return Boolean(box) && stateOf(box).scale > 1;
};

const imageOf = (box) => box.querySelector("img:not(.compare-before)");

const apply = (box) => {
  const zoom = stateOf(box);
  const inside = box.firstElementChild;
  const [width, height] = [box.clientWidth, box.clientHeight];
  zoom.x = Math.min(0, Math.max(width * (1 - zoom.scale), zoom.x));
  zoom.y = Math.min(0, Math.max(height * (1 - zoom.scale), zoom.y));
  const plain = zoom.scale === 1;
  inside.style.transform = plain ? "" : `translate(${zoom.x}px, ${zoom.y}px) scale(${zoom.scale})`;
  inside.style.setProperty("--zoom", zoom.scale); // lines stay as thin as they are
  box.style.touchAction = plain ? "" : "none";
  box.style.cursor = plain ? "" : "grab";
  const image = imageOf(box);
  const across = image?.naturalWidth ? (zoom.scale * image.clientWidth) / image.naturalWidth : 0;
  inside.style.imageRendering = across >= PIXELS ? "pixelated" : "";
};

// Asks for all pixels, unless they are there; a redraw brings back the smaller picture.
const askForFull = (box, tell) => {
  const zoom = stateOf(box);
  const image = imageOf(box);
  if (!box.dataset.full || zoom.scale === 1 || !image || image.src === zoom.full) return;
  if (zoom.asked === image.src) return;
  zoom.asked = image.src;
  tell({ dataset: { act: box.dataset.full, input: box.dataset.input, output: box.dataset.output } });
};

// Zooms about a point of the window, which stays in its place.
const zoomBy = (box, by, clientX, clientY, tell) => {
  const zoom = stateOf(box);
  const at = box.getBoundingClientRect();
  const [x, y] = [clientX - at.left, clientY - at.top];
  const scale = Math.min(LARGEST, Math.max(1, zoom.scale * by));
  zoom.x = x - ((x - zoom.x) * scale) / zoom.scale;
  zoom.y = y - ((y - zoom.y) * scale) / zoom.scale;
  zoom.scale = scale < 1.01 ? 1 : scale;
  apply(box);
  askForFull(box, tell);
};

const move = (box, x, y) => {
  const zoom = stateOf(box);
  zoom.x += x;
  zoom.y += y;
  apply(box);
};

const reset = (box) => {
  Object.assign(stateOf(box), { scale: 1, x: 0, y: 0 });
  apply(box);
};

// Replaces pictures {class: address} in an element by those with all pixels.
export const showFull = ({ id, pictures }) => {
  const box = document.getElementById(id);
  for (const [name, url] of Object.entries(pictures)) {
    const image = box?.querySelector(`img.${name}`);
    if (!image) continue;
    const before = image.src;
    const coming = Object.assign(new Image(), { src: url });
    coming.decode().then(() => {
      if (image.src !== before) return; // another picture came meanwhile
      image.src = url;
      if (image === imageOf(box)) stateOf(box).full = image.src;
      image.onload = () => apply(box);
    }, () => {}); // the address is not valid any more: then the smaller picture stays
  }
};

const watchWheel = (box, tell) => {
  box.addEventListener("wheel", (event) => {
    const zoom = stateOf(box);
    const wanted = event.ctrlKey || event.metaKey || box.contains(document.activeElement);
    if (!wanted || (zoom.scale === 1 && event.deltaY > 0)) return; // then the page scrolls
    event.preventDefault();
    const pixels = Math.max(-240, Math.min(240, event.deltaY * (event.deltaMode ? 20 : 1)));
    zoomBy(box, Math.exp(-pixels / 320), event.clientX, event.clientY, tell);
  }, { passive: false });
};

const watchPointers = (tell) => {
  addEventListener("pointerdown", (event) => {
    const box = boxOf(event.target);
    if (!box || event.button) return;
    const { pointers, scale } = stateOf(box);
    pointers.set(event.pointerId, [event.clientX, event.clientY]);
    if (scale > 1 || pointers.size > 1) box.setPointerCapture(event.pointerId);
  });
  addEventListener("pointermove", (event) => {
    const box = boxOf(event.target);
    const pointers = box ? stateOf(box).pointers : null;
    const before = pointers?.get(event.pointerId);
    if (!before) return;
    const now = [event.clientX, event.clientY];
    const [other] = [...pointers].filter(([id]) => id !== event.pointerId).map(([, at]) => at);
    pointers.set(event.pointerId, now);
    if (other) {
      const far = (at) => Math.max(1, Math.hypot(at[0] - other[0], at[1] - other[1]));
      zoomBy(box, far(now) / far(before), (now[0] + other[0]) / 2, (now[1] + other[1]) / 2, tell);
      move(box, (now[0] - before[0]) / 2, (now[1] - before[1]) / 2);
    } else if (stateOf(box).scale > 1) move(box, now[0] - before[0], now[1] - before[1]);
  });
  for (const end of ["pointerup", "pointercancel"]) {
    addEventListener(end, (event) => {
      const box = boxOf(event.target);
      if (box) stateOf(box).pointers.delete(event.pointerId);
    });
  }
  // A pointer that left a picture without capture is no longer one of its fingers.
  addEventListener("pointerout", (event) => {
    const box = boxOf(event.target);
    if (box && !box.contains(event.relatedTarget) && !box.hasPointerCapture(event.pointerId)) {
      stateOf(box).pointers.delete(event.pointerId);
    }
  });
  addEventListener("dragstart", (event) => { if (boxOf(event.target)) event.preventDefault(); });
  addEventListener("dblclick", (event) => {
    const box = boxOf(event.target);
    if (!box) return;
    if (stateOf(box).scale > 1) reset(box);
    else zoomBy(box, 2.5, event.clientX, event.clientY, tell);
  });
};

const watchKeys = (tell) => addEventListener("keydown", (event) => {
  const box = boxOf(event.target);
  if (!box || event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented) return;
  const at = box.getBoundingClientRect();
  const by = { "+": STEP, "=": STEP, "-": 1 / STEP }[event.key];
  const arrow = ARROWS[event.key];
  if (by) zoomBy(box, by, at.left + at.width / 2, at.top + at.height / 2, tell);
  else if (event.key === "0") reset(box);
  else if (arrow && stateOf(box).scale > 1 && !event.target.matches("input")) move(box, MOVE * arrow[0], MOVE * arrow[1]);
  else return;
  event.preventDefault();
});

// `tell(element, more)` sends an act to Python.
export const watchZooms = (tell) => {
  const watched = new WeakSet();
  for (const way of ["pointerover", "focusin"]) {
    addEventListener(way, (event) => {
      const box = boxOf(event.target);
      if (!box || watched.has(box)) return;
      watched.add(box);
      watchWheel(box, tell);
    });
  }
  watchPointers(tell);
  watchKeys(tell);
};
