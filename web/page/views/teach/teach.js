// The teach view's part of the main thread: clears the pad once its drawing is an example.

export const show = (panel, { clear }) => {
  const pad = panel.querySelector("canvas.pad");
  if (clear && pad) pad.getContext("2d").clearRect(0, 0, pad.width, pad.height);
};
