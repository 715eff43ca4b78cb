// Cameras for inputs: a preview in the card, and pictures that are sent to Python as bitmaps. Where inputs are
// answered live, Python asks for the next picture when it has answered the last one.

import { button, letGo, make, openDevice, placeOf, tellProblem } from "./device.js";

const WANTED = { width: { ideal: 1280 }, height: { ideal: 960 } };
const RETRY_MS = 50;
const open = new Map(); // index of an input -> sends a picture of its camera

// `tell(element, more)` sends an act to Python.
const openCamera = async (control, tell, facing = "environment") => {
  const place = placeOf(control);
  const { input, view } = control.dataset;
  const own = (act) => (view ? `${view}:${act}` : act); // a view has acts of its own
  if (!place) return;
  const stream = await openDevice(place, "camera", { video: { ...WANTED, facingMode: facing } });
  if (!stream) return;
  const video = make("video", { autoplay: true, muted: true, playsInline: true, srcObject: stream, className: "camera" });
  video.setAttribute("aria-label", "Camera preview");
  const close = () => {
    letGo(stream);
    open.delete(input);
    place.replaceChildren();
  };
  const send = async (act) => {
    if (!video.isConnected) return;
    const bitmap = await createImageBitmap(video); // fails until the first picture is there
    tell({ dataset: { act: own(act), input } }, { bitmap });
  };
  const take = button("Take picture", async () => {
    try {
      await send("camera-picture");
      close();
    } catch (error) {
      letGo(stream);
      open.delete(input);
      tellProblem(place, "camera", error);
    }
  }, "primary");
  take.disabled = true;
  video.onloadeddata = () => {
    take.disabled = false;
    open.set(input, () => send("camera-frame"));
    tell({ dataset: { act: own("camera-open"), input } });
  };
  const turn = button("Other camera", () => {
    close();
    openCamera(control, tell, facing === "user" ? "environment" : "user");
  });
  const buttons = make("div", { className: "controls" }, take, turn, button("Close", close));
  place.replaceChildren(video, buttons);
  take.focus();
};

// Sends the next picture of an input's camera, if that is still open.
export const sendFrame = (input) => {
  // A hidden tab shows no frames, and needs no answers.
  requestAnimationFrame(() => open.get(String(input))?.().catch(() => setTimeout(sendFrame, RETRY_MS, input)));
};

export const watchCameras = (tell) => {
  addEventListener("click", (event) => {
    const control = event.target.closest?.("[data-device=camera]");
    if (control) openCamera(control, tell);
  });
};
