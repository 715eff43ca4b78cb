// A camera for picture inputs: a preview in the card, and a picture that is sent to Python as a file.

import { button, letGo, make, openDevice, placeOf, tellProblem } from "./device.js";

const WANTED = { width: { ideal: 1280 }, height: { ideal: 960 } };

const pictureOf = (video) => new Promise((resolve, reject) => {
  const canvas = make("canvas", { width: video.videoWidth, height: video.videoHeight });
  canvas.getContext("2d").drawImage(video, 0, 0);
  canvas.toBlob((blob) => (blob ? resolve(new File([blob], "camera.png", { type: "image/png" }))
    : reject(new Error("it gave no picture."))), "image/png");
});

// `tell(element, more)` sends an act to Python.
const openCamera = async (control, tell, facing = "environment") => {
  const place = placeOf(control);
  if (!place) return;
  const stream = await openDevice(place, "camera", { video: { ...WANTED, facingMode: facing } });
  if (!stream) return;
  const video = make("video", { autoplay: true, muted: true, playsInline: true, srcObject: stream, className: "camera" });
  video.setAttribute("aria-label", "What the camera sees");
  const close = () => {
    letGo(stream);
    place.replaceChildren();
  };
  const take = button("Take picture", async () => {
    try {
      const file = await pictureOf(video);
      close();
      tell({ dataset: { act: "npy", input: control.dataset.input } }, { files: [file] });
    } catch (error) {
      letGo(stream);
      tellProblem(place, "camera", error);
    }
  }, "primary");
  take.disabled = true;
  video.onloadeddata = () => { take.disabled = false; };
  const turn = button("Other camera", () => {
    close();
    openCamera(control, tell, facing === "user" ? "environment" : "user");
  });
  const buttons = make("div", { className: "controls" }, take, turn, button("Close", close));
  place.replaceChildren(video, buttons);
  take.focus();
};

export const watchCameras = (tell) => {
  addEventListener("click", (event) => {
    const control = event.target.closest?.("[data-device=camera]");
    if (control) openCamera(control, tell);
  });
};
