// Work that takes long on the main thread, in slices: in between the page shows what was done, and answers.

const SLICE_MS = 10;

// Lets everything else that waits have its turn; scheduler.yield would come back before messages from Python.
export const turn = () => new Promise((resolve) => {
  const { port1, port2 } = new MessageChannel();
  port1.onmessage = () => resolve();
  port2.postMessage(null);
});

// Until what was put into the page is laid out: work on the page itself adds up otherwise.
export const frame = () => new Promise((resolve) => { requestAnimationFrame(() => resolve()); });

// All that `pieces` yields, each of which takes a few milliseconds at most.
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
