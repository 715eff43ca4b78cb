// The visible part of a drawing, moved by mouse, pen, fingers, wheel and keys.

const SMALLEST = 0.02;
const LARGEST = 3;
const CLICK = 5; // pixels that a pointer may move and still click

export class Camera {
  // `changed()` is called once per frame; `clicked(event)` for clicks that were not drags.
  constructor(element, changed, clicked) {
    Object.assign(this, { element, x: 0, y: 0, scale: 1, changed, clicked, pointers: new Map(), frame: 0, moved: 0, inset: 0 });
    this.size = [this.width, this.height];
    this.fitted = null; // the arguments of the last `fit`, until the camera moves otherwise
    element.addEventListener("pointerdown", (event) => this.down(event));
    element.addEventListener("pointermove", (event) => this.move(event));
    for (const end of ["pointerup", "pointercancel"]) element.addEventListener(end, (event) => this.up(event));
    element.addEventListener("wheel", (event) => this.wheel(event), { passive: false });
  }

  get width() { return this.element.clientWidth; }
  get height() { return this.element.clientHeight; }

  later() {
    this.frame ||= requestAnimationFrame(() => {
      this.frame = 0;
      this.changed();
    });
  }

  pan(x, y) {
    this.fitted = null;
    this.x -= x / this.scale;
    this.y -= y / this.scale;
    this.later();
  }

  // Zooms about a point of the element, which stays in place.
  zoom(by, x = this.width / 2, y = this.height / 2) {
    this.fitted = null;
    const scale = Math.min(LARGEST, Math.max(SMALLEST, this.scale * by));
    this.x += x / this.scale - x / scale;
    this.y += y / this.scale - y / scale;
    this.scale = scale;
    this.later();
  }

  centre(x, y) {
    this.fitted = null;
    this.x = x - (this.width - this.inset) / 2 / this.scale;
    this.y = y - this.height / 2 / this.scale;
    this.later();
  }

  // Shows the whole drawing; or, if that would be smaller than `readable`, its top, centred on `middle` if it
  // is wider than the element. Then `inset` pixels at the right, where the map is, stay free.
  fit(width, height, readable = SMALLEST, middle = width / 2) {
    this.fitted = [width, height, readable, middle];
    const down = (this.height - 24) / height;
    const whole = Math.min((this.width - 24) / width, down);
    const free = whole >= Math.min(1, readable) ? this.width : this.width - this.inset;
    const across = (free - 24) / width;
    this.scale = Math.min(1, whole >= readable ? whole : Math.max(across, readable));
    this.x = (across >= this.scale ? width / 2 : middle) - free / 2 / this.scale;
    this.y = down >= this.scale ? height / 2 - this.height / 2 / this.scale : -12 / this.scale;
    this.later();
  }

  // After a resize: fits again if nothing else has moved the camera, else keeps the middle.
  resize(refits) {
    const [width, height] = this.size;
    this.size = [this.width, this.height];
    if (refits && this.fitted) return this.fit(...this.fitted);
    this.x += (width - this.width) / 2 / this.scale;
    this.y += (height - this.height) / 2 / this.scale;
    this.later();
  }

  down(event) {
    if (event.button) return;
    this.element.setPointerCapture(event.pointerId);
    if (!this.pointers.size) this.moved = 0;
    this.pointers.set(event.pointerId, [event.clientX, event.clientY]);
  }

  move(event) {
    const before = this.pointers.get(event.pointerId);
    if (!before) return;
    const now = [event.clientX, event.clientY];
    const others = [...this.pointers].filter(([id]) => id !== event.pointerId).map(([, at]) => at);
    this.pointers.set(event.pointerId, now);
    this.moved += Math.hypot(now[0] - before[0], now[1] - before[1]);
    if (others.length) {
      const [[x, y]] = others;
      const box = this.element.getBoundingClientRect();
      const ratio = Math.hypot(now[0] - x, now[1] - y) / Math.max(1, Math.hypot(before[0] - x, before[1] - y));
      this.zoom(ratio, (now[0] + x) / 2 - box.left, (now[1] + y) / 2 - box.top);
      this.pan((now[0] - before[0]) / 2, (now[1] - before[1]) / 2);
    } else if (this.moved > CLICK) this.pan(now[0] - before[0], now[1] - before[1]);
  }

  up(event) {
    const last = this.pointers.delete(event.pointerId) && !this.pointers.size;
    if (last && this.moved <= CLICK && event.type === "pointerup") this.clicked(event);
  }

  // Without Ctrl the page scrolls, unless the drawing has the focus.
  wheel(event) {
    if (!event.ctrlKey && !event.metaKey && document.activeElement !== this.element) return;
    event.preventDefault();
    const box = this.element.getBoundingClientRect();
    const pixels = event.deltaY * (event.deltaMode ? 20 : 1);
    this.zoom(Math.exp(-Math.max(-240, Math.min(240, pixels)) / 320), event.clientX - box.left, event.clientY - box.top);
  }
}
