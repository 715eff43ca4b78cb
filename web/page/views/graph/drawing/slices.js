// Runs long work on the main thread in slices, so that the page stays responsive.

const SLICE_MS = 10;

// Yields to all other tasks; scheduler.yield would return before messages from Python.
export const turn = () => new Promise((resolve) => {
  const { port1, port2 } = new MessageChannel();
  port1.onmessage = () => resolve();
  port2.postMessage(null);
});

// Waits until new elements are laid out, so that layout work does not pile up.
export const frame = () => new Promise((resolve) => { requestAnimationFrame(() => resolve()); });

// Returns all that `pieces` yields; each may take a few milliseconds.
export const collect = async (pieces) => {
  const made = [];
  let began = performance.now();
  for (const piece of pieces) {
    made.push(piece);
    if (performance.now() - began < SLICE_MS) continue;
    await turn();
    began = performance.now();
  }
  return made;
};
