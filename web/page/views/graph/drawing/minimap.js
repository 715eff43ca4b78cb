// A map of the whole drawing in a corner, with the visible part; a click goes there.

const MOST = 0.6; // visible share of a drawing above which no map is needed
const WIDE = 600; // pixels of a drawing that has room beside its map

export class Minimap {
  constructor(element, go) {
    this.element = element;
    const move = (event) => {
      if (!event.buttons || !this.scene) return;
      const edge = element.getBoundingClientRect();
      const { width, height } = this.scene;
      const scale = Math.min(edge.width / width, edge.height / height);
      go((event.clientX - edge.left - edge.width / 2) / scale + width / 2, (event.clientY - edge.top - edge.height / 2) / scale + height / 2);
    };
    element.addEventListener("pointerdown", (event) => {
      element.setPointerCapture(event.pointerId);
      move(event);
    });
    element.addEventListener("pointermove", move);
  }

  // Returns the pixels at the right that boxes should not be put below, unless the drawing is narrow.
  room(width) { return width > WIDE ? this.element.getBoundingClientRect().width + 20 : 0; }

  shows(scene, paint) { return this.scene === scene && this.paint === paint; }

  show(scene, paint) {
    Object.assign(this, { scene, paint });
    this.element.setAttribute("viewBox", `0 0 ${scene.width} ${scene.height}`);
    this.element.innerHTML = `${scene.coarse(paint)}<rect class="graph-minimap-sight"/>`;
    this.sight = this.element.lastElementChild;
  }

  mark([left, top, right, bottom]) {
    if (!this.scene) return; // the scene comes a little later
    const { width, height } = this.scene;
    const across = Math.min(right, width) - Math.max(left, 0);
    const down = Math.min(bottom, height) - Math.max(top, 0);
    const most = across > 0 && down > 0 && across * down > MOST * width * height;
    this.element.classList.toggle("graph-minimap-idle", most); // nearly everything is visible
    const sides = { x: left, y: top, width: right - left, height: bottom - top };
    for (const [name, value] of Object.entries(sides)) this.sight.setAttribute(name, value);
  }
}
