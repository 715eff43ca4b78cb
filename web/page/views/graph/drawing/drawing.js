// The diagram on the page. A worker computes its layout; the visible part is drawn as SVG, and redrawn only
// when the camera leaves it. Zoomed out, all boxes are a few paths, so that a thousand cost no more than ten.
// Many boxes are added one piece per frame.

import { Camera } from "./camera.js";
import { Minimap } from "./minimap.js";
import { Scene } from "./scene.js";
import { nameOf, sizeOf } from "./shapes.js";
import { frame, turn } from "./slices.js";
import { saveSvg } from "./svg_file.js";

const COARSE = 0.33; // scale below which text is not readable
const READABLE = 0.6; // least scale that a drawing starts with
const MARGIN = 0.7; // of the visible size, drawn around it
const STEP = 80; // pixels
const ID = "graph-box";
const SVG = "http://www.w3.org/2000/svg";

export class Drawing {
  constructor(host, tell) {
    Object.assign(this, { host, tell, scene: null, paint: [], current: null, covered: null, anchor: null, next: {}, fills: 0, file: "graph.svg", graph: "" });
    this.marks = { chosen: null, current: null, found: new Set(), searching: false };
    host.innerHTML = `<div class="graph-sight" tabindex="0" role="application" aria-label="Drawing of the graph" aria-describedby="graph-keys">`
      + `<svg role="group" aria-label="Boxes"><g></g></svg><p class="graph-waiting" role="status"></p></div>`
      + `<svg class="graph-minimap" aria-hidden="true"></svg><p class="graph-far-note note"></p><p class="graph-told" aria-live="polite"></p>`;
    this.sight = host.querySelector(".graph-sight");
    this.layer = host.querySelector("g");
    this.waiting = host.querySelector(".graph-waiting");
    this.told = host.querySelector(".graph-told");
    this.farNote = host.querySelector(".graph-far-note");
    this.camera = new Camera(this.sight, () => this.draw(), (event) => this.click(event));
    this.minimap = new Minimap(host.querySelector(".graph-minimap"), (x, y) => this.camera.centre(x, y));
    this.sight.addEventListener("keydown", (event) => this.key(event));
    this.sight.addEventListener("focus", () => { if (this.current === null && this.scene) this.go(this.marks.chosen ?? 0, false); });
    new ResizeObserver(() => this.resized()).observe(this.sight);
  }

  // `graph` identifies the graph: what was selected in another one is not selected in this one.
  show({ drawing, paint, mark, file, graph }) {
    if (file) this.file = file;
    if (graph && graph !== this.graph) this.leave(graph);
    if (paint) this.next.paint = JSON.parse(paint);
    // Python's None comes as undefined; here a box that is not chosen is null.
    if (mark) this.next.marks = { ...mark, chosen: mark.chosen ?? null, found: new Set(mark.found) };
    this.reveal ||= Boolean(mark?.reveal) && mark.chosen != null;
    if (drawing) this.layOut(JSON.parse(drawing));
    else if (!this.pending) this.take();
  }

  leave(graph) {
    Object.assign(this, { graph, scene: null, current: null, anchor: null, reveal: false, covered: null, next: {} });
    this.fills += 1; // ends a fill of the old drawing
    this.layer.replaceChildren();
    this.told.textContent = "";
  }

  // Colours and marks refer to boxes by number, so they are applied together with their boxes.
  take() {
    this.paint = this.next.paint ?? this.paint;
    this.marks = { ...(this.next.marks ?? this.marks), current: this.current };
    this.next = {};
    this.refresh();
  }

  // ---- the layout

  layOut(drawing) {
    this.worker?.terminate(); // a newer layout replaces it
    this.worker = new Worker(new URL("./layout_worker.js", import.meta.url), { type: "module" });
    this.pending = true;
    this.waiting.textContent = "Laying out …";
    this.sight.setAttribute("aria-busy", "true");
    const failed = (problem) => this.end(`The graph could not be laid out (${problem}). The list shows all of it.`);
    this.worker.onerror = (event) => failed(event.message ?? "its worker did not start");
    this.worker.onmessage = ({ data }) => {
      if (data.problem) failed(data.problem);
      else this.laidOut(new Scene(drawing, data));
    };
    this.worker.postMessage({ sizes: drawing.boxes.map(sizeOf), edges: drawing.edges });
  }

  end(text) {
    this.pending = false;
    this.worker.terminate();
    this.worker = null;
    this.waiting.textContent = text;
    this.sight.removeAttribute("aria-busy");
  }

  laidOut(scene) {
    const key = this.scene?.boxes[this.current]?.key;
    const known = this.scene !== null;
    this.end("");
    this.scene = scene;
    const far = scene.paths.filter((path) => !path).length;
    this.farNote.textContent = far ? `${far === 1 ? "A long edge is" : `${far} long edges are`} drawn as dotted ends: select a box to see where its edges go.` : "";
    this.current = scene.place.get(key) ?? null;
    const held = known && this.anchor ? this.placeOf(this.anchor.fold) : undefined;
    if (held !== undefined) { // the clicked box stays in place
      this.current = held;
      this.camera.fitted = null;
      this.camera.x = scene.x[held] - this.anchor.x / this.camera.scale;
      this.camera.y = scene.y[held] - this.anchor.y / this.camera.scale;
    } else if (!this.reveal) this.firstFit();
    this.anchor = null;
    this.take();
  }

  firstFit() {
    this.unfitted = !this.sight.clientWidth; // it is not in front
    this.camera.inset = this.minimap.room(this.sight.clientWidth);
    if (this.scene && !this.unfitted) this.camera.fit(this.scene.width, this.scene.height, READABLE, this.scene.x[0]);
  }

  // Keeps the selection visible when the size changes: its panel opens, or a phone is turned.
  resized() {
    if (!this.sight.clientWidth) return; // hidden meanwhile
    this.camera.inset = this.minimap.room(this.sight.clientWidth);
    this.camera.resize(this.current === null);
    if (this.unfitted) this.firstFit();
    else if (this.scene && this.current !== null && !this.pending) this.follow(this.current);
  }

  // Returns the box of a fold, or the first one in it.
  placeOf(fold) {
    const group = this.scene.groups.find((one) => one.fold === fold);
    return group?.first ?? this.scene.place.get(`fold ${fold}`);
  }

  // ---- drawing

  refresh() {
    if (!this.scene) return;
    this.covered = null;
    this.mapLater();
    if (this.reveal && this.marks.chosen !== null && this.sight.clientWidth) {
      this.reveal = false;
      if (this.camera.scale < READABLE) this.camera.scale = 1;
      this.current = this.marks.chosen;
      this.marks.current = this.current;
      this.camera.centre(this.scene.x[this.current], this.scene.y[this.current]);
    }
    this.camera.later();
  }

  // Draws the map after the drawing itself.
  async mapLater() {
    const { scene, paint } = this;
    await frame();
    await turn();
    if (scene !== this.scene || paint !== this.paint || this.minimap.shows(scene, paint)) return;
    this.minimap.show(scene, paint);
    this.camera.later();
  }

  draw() {
    const { camera, scene } = this;
    if (!scene || !camera.width) return;
    const [width, height] = [camera.width / camera.scale, camera.height / camera.scale];
    const view = [camera.x, camera.y, camera.x + width, camera.y + height];
    const coarse = camera.scale < COARSE;
    const inside = this.covered && this.covered.coarse === coarse
      && view.every((edge, at) => (at < 2 ? edge >= this.covered.sight[at] : edge <= this.covered.sight[at]));
    if (!inside) {
      const sight = [view[0] - MARGIN * width, view[1] - MARGIN * height, view[2] + MARGIN * width, view[3] + MARGIN * height];
      this.covered = { coarse, sight: coarse ? [-Infinity, -Infinity, Infinity, Infinity] : sight };
      if (coarse) this.fill([scene.coarse(this.paint)], this.marked());
      else this.fillSight(sight, view);
    }
    this.layer.setAttribute("transform", `scale(${camera.scale}) translate(${-camera.x} ${-camera.y})`);
    this.minimap.mark(view);
    this.pointOut();
  }

  pointOut() {
    const id = this.current === null ? "" : `${ID}-${this.current}`;
    if (id && this.layer.querySelector(`#${id}`)) this.sight.setAttribute("aria-activedescendant", id);
    else this.sight.removeAttribute("aria-activedescendant");
  }

  fillSight(sight, view) {
    const { scene, paint, marks } = this;
    const seen = new Set(scene.boxesIn(view));
    if (marks.current !== null) seen.add(marks.current);
    const around = scene.boxesIn(sight).filter((box) => !seen.has(box));
    const pieces = scene.boxPieces([...seen], paint, marks, ID);
    this.fill(scene.linePieces(sight, marks), pieces, scene.boxPieces(around, paint, marks, ID), scene.labelMarkup());
  }

  // Draws `behind` at once, then pieces of boxes, one per frame. The old drawing stays until all visible boxes
  // are there; `around` comes after that. `above` is drawn over all of them.
  async fill(behind, seen, around = [], above = "") {
    this.fills += 1;
    const mine = this.fills; // a newer fill ends this one
    const next = document.createElementNS(SVG, "g");
    const boxes = document.createElementNS(SVG, "g");
    const add = (markup) => boxes.insertAdjacentHTML("beforeend", markup);
    next.append(boxes);
    next.insertAdjacentHTML("beforeend", above);
    this.layer.querySelector(":scope > [visibility]")?.remove(); // left by a fill that was ended
    next.setAttribute("visibility", "hidden");
    this.layer.append(next);
    for (const piece of behind) add(piece);
    let first = true;
    for (const piece of seen) {
      if (!first) await frame();
      if (mine !== this.fills) return;
      add(piece);
      first = false;
    }
    next.removeAttribute("visibility");
    this.layer.replaceChildren(next);
    this.pointOut();
    for (const piece of around) {
      await frame();
      if (mine !== this.fills) return;
      add(piece);
    }
  }

  // Zoomed out, only the selection has text.
  marked() {
    const some = new Set([this.marks.chosen, this.current, ...(this.marks.found.size < 200 ? this.marks.found : [])]);
    some.delete(null);
    return this.scene.boxPieces([...some], this.paint, this.marks, ID);
  }

  // ---- user actions

  go(box, follow = true) {
    this.current = box;
    this.marks.current = box;
    this.covered = null;
    this.told.textContent = nameOf(this.scene.boxes[box], this.paint[box]);
    if (follow) this.follow(box);
    else this.camera.later();
  }

  // Moves the camera if a part of the box is out of sight.
  follow(box) {
    const { scene, camera } = this;
    const [x, y] = [(scene.x[box] - camera.x) * camera.scale, (scene.y[box] - camera.y) * camera.scale];
    const [across, down] = scene.sizes[box].map((size) => (size / 2) * camera.scale);
    const away = x < across || y < down || x > camera.width - camera.inset - across || y > camera.height - down;
    if (away) camera.centre(scene.x[box], scene.y[box]);
    else camera.later();
  }

  open(box) {
    const { node, fold } = this.scene.boxes[box];
    if (fold !== null) this.toggle(fold, box);
    else if (node !== null) this.tell("choose", { node });
  }

  toggle(fold, box = this.placeOf(fold)) {
    const { scene, camera } = this;
    this.anchor = { fold, x: (scene.x[box] - camera.x) * camera.scale, y: (scene.y[box] - camera.y) * camera.scale };
    this.tell("toggle", { key: fold });
  }

  click(event) {
    if (!this.scene) return;
    const edge = this.sight.getBoundingClientRect();
    const { camera } = this;
    const { box, fold } = this.scene.at((event.clientX - edge.left) / camera.scale + camera.x, (event.clientY - edge.top) / camera.scale + camera.y);
    if (box !== undefined) {
      this.go(box, false);
      this.open(box);
    } else if (fold) this.toggle(fold);
  }

  key(event) {
    if (event.altKey || event.ctrlKey || event.metaKey || !this.scene || event.target !== this.sight) return;
    if (!this.act(event.key, event.shiftKey)) return;
    event.preventDefault();
  }

  act(key, shift) {
    const { camera, scene } = this;
    const ways = { ArrowLeft: [1, 0], ArrowRight: [-1, 0], ArrowUp: [0, 1], ArrowDown: [0, -1] };
    if (key in ways && shift) camera.pan(...ways[key].map((one) => one * STEP));
    else if (key in ways) {
      const next = scene.towards(this.current ?? 0, key);
      if (next !== undefined) this.go(next);
    } else if (key === "Home") this.go(0);
    else if (key === "End") this.go(scene.boxes.length - 1);
    else if (["Enter", " "].includes(key) && this.current !== null) this.open(this.current);
    else if (key === "Escape" && this.marks.chosen !== null) this.tell("close", {});
    else return this.use({ "+": "in", "=": "in", "-": "out", 0: "fit" }[key]);
    return true;
  }

  // The buttons above the drawing.
  use(tool) {
    const { camera, scene } = this;
    if (!scene || !tool) return false;
    if (tool === "in") camera.zoom(1.3);
    if (tool === "out") camera.zoom(1 / 1.3);
    if (tool === "fit") camera.fit(scene.width, scene.height);
    if (tool === "save") saveSvg(this.host, scene, this.paint, this.file);
    return true;
  }

  focus() { this.sight.focus({ preventScroll: true }); }
}
