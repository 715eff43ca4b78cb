// Cameras and microphones: requests one, reports why there is none, and releases it.

const REASONS = {
  NotAllowedError: (what) => `The browser did not allow the ${what}. Allow it beside the page's address, then try again, or load a file.`,
  NotFoundError: (what) => `There is no ${what} on this machine. Load a file instead.`,
  NotReadableError: (what) => `The ${what} could not be started. Another program may be using it.`,
  AbortError: (what) => `The ${what} stopped before it was ready. Try again.`,
};
const LOOK_MS = 400; // between checks that the device's place is still on the page

export const make = (name, properties = {}, ...children) => {
  const element = Object.assign(document.createElement(name), properties);
  element.append(...children);
  return element;
};

export const button = (text, onclick, className = "") =>
  make("button", { type: "button", textContent: text, onclick, className });

// Returns the element of an input's card that shows a device.
export const placeOf = (control) => document.getElementById(`input-${control.dataset.input}-device`);

export const tellProblem = (place, what, error) => {
  const reason = REASONS[error.name]?.(what) ?? `The ${what} cannot be used: ${error.message}`;
  const note = make("p", { className: "notice notice-bad", textContent: reason });
  note.setAttribute("role", "alert");
  place.replaceChildren(note);
};

// Returns a stream, or null after showing the reason. It is released when `place` leaves the page.
export const openDevice = async (place, what, wanted) => {
  try {
    if (!navigator.mediaDevices) throw new Error("browsers offer it only to pages whose address is secure.");
    place.replaceChildren(make("p", { className: "note", textContent: `Asking for the ${what}…` }));
    const stream = await navigator.mediaDevices.getUserMedia(wanted);
    const watch = setInterval(() => {
      const over = stream.getTracks().every((track) => track.readyState === "ended");
      if (!over && place.isConnected && place.childElementCount) return;
      clearInterval(watch);
      letGo(stream);
    }, LOOK_MS);
    return stream;
  } catch (error) {
    tellProblem(place, what, error);
    return null;
  }
};

export const letGo = (stream) => stream.getTracks().forEach((track) => track.stop());
