// The microphone as a stream: its samples are sent to Python when that asks for more, and a curve scrolls with
// the loudness and the program's answers.

import { button, letGo, make, openDevice, placeOf, tellProblem } from "./device.js";

const SHOWN_SECONDS = 10;
const MOST_SECONDS = 5; // of samples that wait; a slow program skips older ones
const PLAIN = { echoCancellation: false, noiseSuppression: false, autoGainControl: false };
const MARGIN = 6; // pixels above and below the curves

const open = new Map(); // index of an input -> its stream

// The samples that wait, and the points of both curves as [seconds, value].
class Stream {
  constructor(place, { input, acts = "listen-" }, rate, tell) {
    Object.assign(this, { place, input, acts, rate, tell, blocks: [], waiting: 0, came: 0, skipped: 0, wanted: 0 });
    Object.assign(this, { levels: [], values: [], name: "", ended: false });
    this.canvas = make("canvas", { className: "listening", width: 640, height: 160 });
    this.canvas.setAttribute("role", "img");
    this.canvas.addEventListener("contextrestored", () => this.draw());
    this.told = make("p", { className: "note", textContent: "Listening …" });
    this.told.setAttribute("role", "status");
    this.legend = make("p", { className: "legend listening-legend" });
    this.now = make("p", { className: "listening-now", ariaHidden: "true", hidden: acts !== "listen-", textContent: "…" });
  }

  take(block) {
    this.blocks.push(block);
    this.waiting += block.length;
    this.came += block.length;
    const level = Math.sqrt(block.reduce((sum, one) => sum + one * one, 0) / block.length);
    this.levels.push([this.came / this.rate, level]);
    while (this.waiting > MOST_SECONDS * this.rate) {
      this.skipped += this.blocks[0].length;
      this.waiting -= this.blocks.shift().length;
    }
    this.send();
  }

  // Sends all that waits, if Python has asked and there is enough for a call.
  send() {
    if (!this.wanted || this.waiting < this.wanted) return;
    const samples = new Float32Array(this.waiting);
    let at = 0;
    for (const block of this.blocks) {
      samples.set(block, at);
      at += block.length;
    }
    Object.assign(this, { blocks: [], waiting: 0, wanted: 0 });
    this.tell({ dataset: { act: `${this.acts}part`, input: this.input } }, { samples: new Uint8Array(samples.buffer) });
  }

  // Takes the answers to the last part, and the wish for the next.
  answer({ name, wanted, values = [], text, speed }) {
    this.name = name;
    this.wanted = wanted;
    const late = this.skipped / this.rate;
    this.values.push(...values.map(([seconds, value]) => [seconds + late, value]));
    if (text) {
      this.now.textContent = text;
      const skipped = this.skipped ? ` · ${late.toFixed(1)} s skipped` : "";
      this.told.textContent = `${name}: ${text} · ${speed.toFixed(1)} frames/s${skipped}`;
    }
    this.send();
  }

  // Leaves the curve in its place, to be looked at until it is closed; a view shows its own results.
  end(place) {
    if (this.acts !== "listen-" || !this.values.length) {
      place.replaceChildren();
      return;
    }
    this.canvas.dataset.ended = "";
    this.now.remove();
    this.told.textContent = `Stopped. These are the last ${SHOWN_SECONDS} seconds.`;
    const close = button("Close", () => place.replaceChildren());
    const focused = place.contains(document.activeElement);
    place.lastElementChild.replaceChildren(close);
    if (focused) close.focus();
  }

  draw() {
    const now = this.came / this.rate;
    for (const points of [this.levels, this.values]) {
      while (points.length > 1 && points[1][0] < now - SHOWN_SECONDS) points.shift();
    }
    const { canvas } = this;
    const scale = devicePixelRatio || 1;
    const [width, height] = [canvas.clientWidth * scale, canvas.clientHeight * scale];
    if (!width) return;
    if (canvas.width !== width || canvas.height !== height) Object.assign(canvas, { width, height });
    const style = getComputedStyle(canvas);
    const ink = canvas.getContext("2d");
    ink.clearRect(0, 0, width, height);
    const all = this.values.map(([, value]) => value);
    const low = Math.min(0, ...all);
    const high = Math.max(...all, low + 1e-9, all.every((one) => one <= 1) ? 1 : 0);
    this.line(ink, this.levels, 0, 1, style.outlineColor, scale);
    this.line(ink, this.values, low, high, style.color, 2 * scale);
    const digits = (value) => String(Number(value.toPrecision(3)));
    this.legend.replaceChildren(
      make("span", { className: "listening-level", textContent: "loudness, 0 to 1" }),
      ...(this.acts === "listen-"
        ? [make("span", { className: "listening-answer", textContent: `${this.name || "answer"}, ${digits(low)} to ${digits(high)}` })]
        : []),
    );
    canvas.ariaLabel = `Loudness and ${this.name || "answers"} of the last ${SHOWN_SECONDS} seconds`;
  }

  line(ink, points, low, high, colour, thick) {
    const { width, height } = ink.canvas;
    const now = this.came / this.rate;
    ink.strokeStyle = colour;
    ink.lineWidth = thick;
    ink.beginPath();
    for (const [seconds, value] of points) {
      const x = width * (1 - (now - seconds) / SHOWN_SECONDS);
      const up = Math.min(Math.max((value - low) / (high - low), 0), 1);
      ink.lineTo(x, height - MARGIN - up * (height - 2 * MARGIN));
    }
    ink.stroke();
  }
}

// `tell(element, more)` sends an act to Python: of a view, its acts begin with `data-acts`.
const listen = async (control, tell) => {
  const place = placeOf(control);
  const { input } = control.dataset;
  if (!place || open.has(input)) return;
  const device = await openDevice(place, "microphone", { audio: PLAIN });
  if (!device) return;
  let context = null;
  try {
    context = new AudioContext({ sampleRate: Number(control.dataset.rate) });
    await context.audioWorklet.addModule(new URL("./listen_worklet.js", import.meta.url));
    const stream = new Stream(place, control.dataset, context.sampleRate, tell);
    const node = new AudioWorkletNode(context, "listener", { numberOfOutputs: 0, channelCount: 1, channelCountMode: "explicit" });
    context.createMediaStreamSource(device).connect(node);
    node.port.onmessage = ({ data }) => stream.take(data);
    stream.close = (told = true) => {
      if (stream.ended) return;
      stream.ended = true;
      letGo(device);
      context.close();
      open.delete(input);
      stream.end(place);
      if (told) tell({ dataset: { act: `${stream.acts}close`, input } });
    };
    const stop = button("Stop", () => stream.close(), "primary");
    place.replaceChildren(stream.now, stream.canvas, stream.legend, stream.told, make("div", { className: "controls" }, stop));
    stop.focus();
    open.set(input, stream);
    tell({ dataset: { act: `${stream.acts}open`, input } });
    const draw = () => {
      if (stream.ended) return;
      const over = device.getTracks().every((track) => track.readyState === "ended");
      if (!stream.canvas.isConnected || over) stream.close();
      else {
        stream.draw();
        requestAnimationFrame(draw);
      }
    };
    draw();
  } catch (error) {
    letGo(device);
    context?.close();
    tellProblem(place, "microphone", error);
  }
};

// Takes Python's answer {input, wanted, values, ...}, or {input, ends}.
export const answerListening = (message) => {
  const stream = open.get(String(message.input));
  if (!stream) return;
  if (message.ends) stream.close(false);
  else stream.answer(message);
};

export const watchListening = (tell) => {
  addEventListener("click", (event) => {
    const control = event.target.closest?.("[data-device=listen]");
    if (control) listen(control, tell);
  });
};
