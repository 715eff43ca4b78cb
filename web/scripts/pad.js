// Pads for inputs that can be drawn: strokes on a canvas are sent to Python as the model's pixels. One
// listener serves all pads, since they come and go.

const PEN = 2; // in pixels of the model
const PAUSE_MS = 80; // between two messages while someone draws
const ARROWS = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };
const pads = new WeakMap(); // canvas -> the state of its stroke
const drawings = new WeakMap(); // canvas -> all of its pixels: it is emptied when the GPU process dies

const place = (canvas, event) => {
  const box = canvas.getBoundingClientRect();
  return [
    ((event.clientX - box.left) * canvas.width) / box.width,
    ((event.clientY - box.top) * canvas.height) / box.height,
  ];
};

const inkOf = (canvas) => canvas.getContext("2d", { willReadFrequently: true });

const stroke = (canvas, from, to) => {
  const ink = inkOf(canvas);
  Object.assign(ink, { strokeStyle: "white", lineCap: "round", lineJoin: "round" });
  ink.lineWidth = (PEN * canvas.width) / canvas.dataset.columns;
  ink.beginPath();
  ink.moveTo(...from);
  ink.lineTo(...to);
  ink.stroke();
};

// Returns the pad's pixels, and keeps them.
const keep = (canvas) => {
  const drawing = inkOf(canvas).getImageData(0, 0, canvas.width, canvas.height);
  drawings.set(canvas, drawing);
  return drawing.data;
};

// Returns the brightness of each pixel of the model: the mean of the pad's pixels in it, 0 to 255.
const pixelsOf = (canvas) => {
  const [rows, columns] = [Number(canvas.dataset.rows), Number(canvas.dataset.columns)];
  const data = keep(canvas);
  const sums = new Float64Array(rows * columns);
  const counts = new Float64Array(rows * columns);
  for (let y = 0; y < canvas.height; y += 1) {
    const row = Math.floor((y * rows) / canvas.height) * columns;
    for (let x = 0; x < canvas.width; x += 1) {
      const at = row + Math.floor((x * columns) / canvas.width);
      sums[at] += data[4 * (y * canvas.width + x) + 3]; // the ink is white, so alpha is brightness
      counts[at] += 1;
    }
  }
  return Uint8Array.from(sums, (sum, at) => Math.round(sum / counts[at]));
};

// Paints a restored drawing from the pixels of the model.
export const paint = (canvas, { rows, columns, grey }) => {
  const ink = inkOf(canvas);
  const [width, height] = [canvas.width / columns, canvas.height / rows];
  ink.clearRect(0, 0, canvas.width, canvas.height);
  grey.forEach((alpha, at) => {
    ink.fillStyle = `rgb(255 255 255 / ${alpha / 255})`;
    if (alpha) ink.fillRect((at % columns) * width, Math.floor(at / columns) * height, width, height);
  });
  keep(canvas);
};

const clear = (canvas) => {
  drawings.delete(canvas);
  inkOf(canvas).clearRect(0, 0, canvas.width, canvas.height);
};

// Puts the drawing of another pad, of any size, in the place of this one's; returns the pixels of the model.
export const copyDrawing = (from, canvas) => {
  const ink = canvas.getContext("2d", { willReadFrequently: true });
  ink.clearRect(0, 0, canvas.width, canvas.height);
  ink.drawImage(from, 0, 0, canvas.width, canvas.height);
  return pixelsOf(canvas);
};

// `tell(canvas, more)` sends the canvas's act to Python.
export const watchPads = (tell) => {
  const padOf = (event) => event.target.closest?.("canvas.pad");
  const send = (canvas) => {
    pads.get(canvas).due = 0;
    if (canvas.isConnected) tell(canvas, { pixels: pixelsOf(canvas) });
  };
  addEventListener("pointerdown", (event) => {
    const canvas = padOf(event);
    if (!canvas || event.button) return;
    event.preventDefault();
    canvas.setPointerCapture(event.pointerId);
    const at = place(canvas, event);
    pads.set(canvas, { at, due: pads.get(canvas)?.due ?? 0 });
    stroke(canvas, at, at);
  });
  addEventListener("pointermove", (event) => {
    const canvas = padOf(event);
    const state = canvas && pads.get(canvas);
    if (!state?.at) return;
    const at = place(canvas, event);
    stroke(canvas, state.at, at);
    state.at = at;
    state.due ||= setTimeout(send, PAUSE_MS, canvas);
  });
  const lift = (event) => {
    const canvas = padOf(event);
    const state = canvas && pads.get(canvas);
    if (!state?.at) return;
    state.at = null;
    clearTimeout(state.due);
    send(canvas);
  };
  // With keys, a pen moves over the pad in steps of its own width, and draws while it is down.
  addEventListener("keydown", (event) => {
    const canvas = padOf(event);
    const [dx, dy] = ARROWS[event.key] ?? [0, 0];
    if (!canvas || event.ctrlKey || event.metaKey || event.altKey) return;
    if (!(event.key in ARROWS) && ![" ", "Delete", "Backspace"].includes(event.key)) return;
    event.preventDefault();
    const state = pads.get(canvas) ?? { at: null, due: 0 };
    pads.set(canvas, state);
    const step = (PEN * canvas.width) / canvas.dataset.columns;
    state.pen ??= [canvas.width / 2, canvas.height / 2];
    const [x, y] = state.pen;
    if (event.key === " ") state.down = !state.down;
    else if (dx || dy) state.pen = [Math.min(Math.max(x + step * dx, 0), canvas.width), Math.min(Math.max(y + step * dy, 0), canvas.height)];
    else canvas.closest(".drawing").querySelector("[data-act=clear-drawing]").click();
    if (state.down && event.key !== "Delete" && event.key !== "Backspace") {
      stroke(canvas, [x, y], state.pen);
      clearTimeout(state.due);
      state.due = setTimeout(send, PAUSE_MS, canvas);
    }
    showPen(canvas, state);
  });
  const penOf = (canvas) => canvas.parentElement.querySelector(".pad-pen");
  const showPen = (canvas, { pen, down }) => {
    const mark = penOf(canvas);
    mark.hidden = !pen;
    if (!pen) return;
    mark.toggleAttribute("data-down", Boolean(down));
    mark.style.left = `${(100 * pen[0]) / canvas.width}%`;
    mark.style.top = `${(100 * pen[1]) / canvas.height}%`;
  };
  addEventListener("focusout", (event) => { if (padOf(event)) penOf(padOf(event)).hidden = true; });
  addEventListener("pointerup", lift);
  addEventListener("pointercancel", lift);
  addEventListener("click", (event) => {
    if (!event.target.closest?.("[data-act=clear-drawing]")) return;
    const canvas = event.target.closest(".drawing").querySelector("canvas");
    clearTimeout(pads.get(canvas)?.due);
    pads.delete(canvas);
    clear(canvas);
  });
  // Neither bubbles.
  addEventListener("pad-clear", ({ target }) => clear(target), true);
  addEventListener("contextrestored", ({ target }) => {
    if (drawings.has(target)) inkOf(target).putImageData(drawings.get(target), 0, 0);
  }, true);
};
