// The teach view's part of the main thread: clears the pad once its drawing is an example.

export const show = (panel, { clear }) => {
  if (clear) panel.querySelector("canvas.pad")?.dispatchEvent(new Event("pad-clear"));
};
