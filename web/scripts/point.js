// Pictures and curves that show values: the position of the mouse, finger or arrow keys is sent to Python as
// fractions across and down. One listener serves all, since they come and go.

const PAUSE_MS = 50; // between two messages
const KEYS = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };

// `tell(element, more)` sends an act to Python.
export const watchPoints = (tell) => {
  let due = 0;
  let last = null;

  const point = (element, x, y) => {
    const mark = element.querySelector(".mark");
    mark.hidden = false;
    mark.style.left = `${100 * x}%`;
    mark.style.top = `${100 * y}%`;
    last = { element, x, y };
    due ||= setTimeout(() => {
      due = 0;
      const { output, point: act } = last.element.dataset;
      if (last.element.isConnected) tell({ dataset: { act, output } }, { x: last.x, y: last.y });
    }, PAUSE_MS);
  };

  const pointedAt = (event) => {
    const element = event.target.closest?.("[data-point]");
    if (!element) return;
    const box = element.getBoundingClientRect();
    const part = (at, size) => Math.min(Math.max(at / size, 0), 1);
    point(element, part(event.clientX - box.left, box.width), part(event.clientY - box.top, box.height));
  };
  addEventListener("pointermove", pointedAt);
  addEventListener("pointerdown", pointedAt);

  addEventListener("keydown", (event) => {
    const element = event.target;
    const step = KEYS[event.key];
    if (!element.matches?.("[data-point]") || !step || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    const [columns, rows] = [Number(element.dataset.columns), Number(element.dataset.rows)];
    const known = last?.element === element;
    const cell = known ? [Math.floor(last.x * columns), Math.floor(last.y * rows)] : [-step[0], -step[1]];
    const moved = (at, by, count) => (Math.min(Math.max(at + by, 0), count - 1) + 0.5) / count;
    point(element, moved(cell[0], step[0], columns), moved(cell[1], step[1], rows));
  });
};
