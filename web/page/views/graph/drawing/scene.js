// A layout with its boxes, and the markup of the visible part, in pieces that are quick to make and to show.

import { arrow, boxMarkup, farCurve, groupMarkup, LABEL_HEIGHT, labelMarkup, labelWidth, sizeOf, stub } from "./shapes.js";

const AROUND = 14; // pixels between an opened fold's frame and its content
const HEAD = 20;
export const MOST_BOXES = 60; // of a piece: text layout is slow
export const MOST_EDGES = 500;

export class Scene {
  constructor(drawing, layout) {
    Object.assign(this, drawing, layout);
    this.sizes = drawing.boxes.map(sizeOf);
    this.before = drawing.boxes.map(() => []);
    this.after = drawing.boxes.map(() => []);
    drawing.edges.forEach(([from, to], edge) => {
      this.before[to].push(from);
      this.after[from].push(to);
      this.edges[edge].ends = this.#verticalEnds(edge);
    });
    this.frames = this.groups.map((group) => this.#frame(group));
    this.labels = []; // the left upper corners of the groups' labels
    this.groups.forEach((group, at) => this.labels.push(this.#labelPlace(group, this.frames[at])));
    this.place = new Map(drawing.boxes.map((box, at) => [box.key, at]));
    this.far = { paint: null, markup: "" };
  }

  top(box) { return this.y[box] - this.sizes[box][1] / 2; }
  bottom(box) { return this.y[box] + this.sizes[box][1] / 2; }
  #verticalEnds(edge) {
    const [from, to] = this.edges[edge];
    return [this.bottom(from), this.top(to)];
  }

  // Returns the frame around an opened fold; one with folds inside has more room.
  #frame({ first, stop, fold }) {
    const more = this.groups.some((other) => other.fold.startsWith(`${fold}.`)) ? AROUND : 0;
    let [left, top, right, bottom] = [Infinity, Infinity, -Infinity, -Infinity];
    for (let box = first; box < stop; box += 1) {
      left = Math.min(left, this.x[box] - this.sizes[box][0] / 2);
      right = Math.max(right, this.x[box] + this.sizes[box][0] / 2);
      top = Math.min(top, this.top(box));
      bottom = Math.max(bottom, this.bottom(box));
    }
    const room = AROUND + more;
    return [left - room, top - room - HEAD / 2 - more / 2, right + room, bottom + room];
  }

  // Returns a place for a label at the upper edge of its frame, or left of it, where it covers no box and no
  // other label.
  #labelPlace(group, [left, top, right]) {
    const width = labelWidth(group);
    const middle = top + 2 + LABEL_HEIGHT / 2;
    const near = this.boxes.map((_, box) => box).filter((box) => Math.abs(this.y[box] - middle) < (this.sizes[box][1] + LABEL_HEIGHT) / 2 + 2);
    const isFree = (x) => near.every((box) => Math.abs(this.x[box] - x - width / 2) >= (this.sizes[box][0] + width) / 2 + 2)
      && this.labels.every(([otherX, otherY], at) => Math.abs(otherY - top - 2) >= LABEL_HEIGHT
        || otherX >= x + width || otherX + labelWidth(this.groups[at]) <= x);
    const places = [];
    for (let x = left + 6; x + width <= Math.max(right, left + width + 8); x += 12) places.push(x);
    for (let x = left - width - 4; x > left - 400; x -= 24) places.push(x);
    return [places.find(isFree) ?? places[0], top + 2];
  }

  // Returns the box at a point, or the fold whose label is there.
  at(x, y) {
    const label = this.labels.findIndex(([left, top], at) => x >= left && x <= left + labelWidth(this.groups[at]) && y >= top && y <= top + LABEL_HEIGHT);
    if (label >= 0) return { fold: this.groups[label].fold };
    const box = this.boxes.findIndex((_, one) => Math.abs(x - this.x[one]) <= this.sizes[one][0] / 2
      && Math.abs(y - this.y[one]) <= this.sizes[one][1] / 2);
    return box >= 0 ? { box } : {};
  }

  #inSight(box, [left, top, right, bottom]) {
    const [width, height] = this.sizes[box];
    return Math.abs(this.x[box] - (left + right) / 2) <= (right - left + width) / 2
      && Math.abs(this.y[box] - (top + bottom) / 2) <= (bottom - top + height) / 2;
  }

  #line(edge) {
    const [from, to] = this.edges[edge];
    return this.paths[edge] ?? farCurve(this.x[from], this.bottom(from), this.x[to], this.top(to));
  }

  // Returns all boxes as rectangles without text, one path per colour.
  coarse(paint) {
    if (this.far.paint !== paint) this.far = { paint, markup: this.#coarse(paint) };
    return this.far.markup;
  }

  #coarse(paint) {
    const rects = new Map();
    this.boxes.forEach((_, box) => {
      const [width, height] = this.sizes[box];
      const tint = paint[box][0] || paint[box][2]?.reduce((one, two) => (two[1] > one[1] ? two : one))[0] || "graph-plain";
      const path = `M${Math.round(this.x[box] - width / 2)} ${Math.round(this.top(box))}h${Math.round(width)}v${height}h${-Math.round(width)}z`;
      rects.set(tint, (rects.get(tint) ?? "") + path);
    });
    return `<path class="graph-drawn-line" d="${this.paths.join("")}"/>`
      + [...rects].map(([tint, path]) => `<path class="graph-coarse ${tint}" d="${path}"/>`).join("");
  }

  // Returns the numbers of the boxes in an area.
  boxesIn(area) { return this.boxes.map((_, at) => at).filter((at) => this.#inSight(at, area)); }

  // Returns what is drawn behind the boxes in an area. `marks`: {chosen, current, found: Set, searching}
  *linePieces(area, marks) {
    yield this.groups.map((group, at) => groupMarkup(group, this.frames[at])).join("");
    for (let first = 0; first < this.edges.length; first += MOST_EDGES) yield this.#lines(first, area, marks);
    const near = this.edges.map((_, edge) => (this.#isMarked(edge, marks) ? this.#line(edge) : "")).join("");
    if (near) yield `<path class="graph-drawn-line graph-drawn-near" d="${near}"/>`;
  }

  #isMarked(edge, marks) {
    const [from, to] = this.edges[edge];
    return [marks.chosen, marks.current].some((one) => one === from || one === to);
  }

  #lines(first, [, top, , bottom], marks) {
    let [lines, arrows, far] = ["", "", ""];
    for (let edge = first; edge < Math.min(first + MOST_EDGES, this.edges.length); edge += 1) {
      const [from, to] = this.edges[edge];
      const [start, end] = this.edges[edge].ends;
      if (end < top || start > bottom) continue;
      if (!this.paths[edge]) far += stub(this.x[from] + 14, start, 1) + stub(this.x[to] - 14, end, -1);
      else {
        if (!this.#isMarked(edge, marks)) lines += this.paths[edge];
        arrows += arrow(this.tips[2 * edge], this.tips[2 * edge + 1]);
      }
    }
    const paths = Object.entries({ line: lines, arrow: arrows, far });
    return paths.map(([kind, path]) => (path ? `<path class="graph-drawn-${kind}" d="${path}"/>` : "")).join("");
  }

  // Returns the labels of opened folds, which are above the boxes.
  labelMarkup() { return this.groups.map((group, at) => labelMarkup(group, this.labels[at])).join(""); }

  // `id` names boxes for screen readers.
  *boxPieces(boxes, paint, marks, id) {
    for (let first = 0; first < boxes.length; first += MOST_BOXES) {
      yield boxes.slice(first, first + MOST_BOXES).map((at) => this.box(at, paint, marks, id)).join("");
    }
  }

  box(at, paint, marks, id) {
    const classes = [
      at === marks.chosen && "graph-drawn-chosen",
      at === marks.current && "graph-drawn-current",
      marks.searching && (marks.found.has(at) ? "graph-drawn-found" : "graph-drawn-other"),
    ].filter(Boolean).join(" ");
    return boxMarkup(this.boxes[at], [this.x[at], this.y[at]], this.sizes[at], paint[at], { id: id && `${id}-${at}`, classes });
  }

  // Returns the box that an arrow key leads to.
  towards(box, key) {
    const nearest = (boxes) => boxes.reduce((best, one) => (best === undefined
      || Math.abs(this.x[one] - this.x[box]) < Math.abs(this.x[best] - this.x[box]) ? one : best), undefined);
    if (key === "ArrowDown") return nearest(this.after[box]) ?? (box + 1 < this.boxes.length ? box + 1 : undefined);
    if (key === "ArrowUp") return nearest(this.before[box]) ?? (box > 0 ? box - 1 : undefined);
    const side = key === "ArrowRight" ? 1 : -1;
    const beside = this.boxes.map((_, one) => one).filter((one) => side * (this.x[one] - this.x[box]) > 1
      && Math.abs(this.y[one] - this.y[box]) < this.sizes[box][1] * 1.5);
    return nearest(beside);
  }
}
