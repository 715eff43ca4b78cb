// The console's part of the main thread: Ctrl Enter runs the cell, and Cancel ends code that never awaits.
// Python reads no messages while such code runs: it is interrupted through shared memory, where a page has that
// (as Pyodide's setInterruptBuffer takes it); else all that is left is to reload the page.

const SIGINT = 2;
const ANSWER_MS = 1000; // for Python to cancel code that awaits
const INTERRUPT_MS = 3000; // for an interrupt: code may catch it, or be inside a long call
const STUCK = `<div class="error" id="python-stuck">
  <p><strong>Could not cancel</strong></p>
  <p class="error-message">Python is busy in this code and cannot be interrupted. Reload the page to stop it: the program opens again.</p>
  <button type="button" id="python-reload">Reload the page</button>
</div>`;

const watched = new WeakSet();
const signals = globalThis.crossOriginIsolated ? new Uint8Array(new SharedArrayBuffer(1)) : null;
const waits = (milliseconds) => new Promise((resolve) => setTimeout(resolve, milliseconds));
let cancelling = false;

// The button is gone as soon as Python has answered.
const endCode = async (button) => {
  await waits(ANSWER_MS);
  if (!button.isConnected) return;
  if (signals) {
    signals[0] = SIGINT;
    await waits(INTERRUPT_MS);
    if (!button.isConnected) return;
  }
  const section = document.getElementById("error");
  section.innerHTML = STUCK; // until Python answers after all
  section.scrollIntoView({ block: "nearest" });
  document.getElementById("python-reload").addEventListener("click", () => location.reload());
};

let history = []; // the code of earlier cells, the newest last
let at = 0; // the shown one; the length of `history`: what is being written
let written = "";
let leaves = false; // Escape was pressed: Tab moves the focus

// Brings the code before or after that in the field, at its first or last line.
const step = (field, by) => {
  if (at + by < 0 || at + by > history.length) return;
  if (at === history.length) written = field.value;
  at += by;
  field.value = at === history.length ? written : history[at];
  field.setSelectionRange(field.value.length, field.value.length);
};

const watchField = (field, event, tell) => {
  const { value, selectionStart: cursor, selectionEnd: end } = field;
  const plain = !event.ctrlKey && !event.metaKey && !event.altKey && !event.shiftKey && cursor === end;
  if (event.key === "ArrowUp" && plain && !value.slice(0, cursor).includes("\n") && at > 0) step(field, -1);
  else if (event.key === "ArrowDown" && plain && !value.slice(cursor).includes("\n") && at < history.length) step(field, 1);
  else if (event.key === "Tab" && plain && !leaves && /[\w.]$/.test(value.slice(0, cursor))) tell("complete", { text: value.slice(0, cursor) });
  else {
    if (event.key === "Escape") leaves = true;
    else if (event.key !== "Tab") leaves = false;
    return;
  }
  event.preventDefault();
};

// Inserts what completes the text before the cursor, unless it has changed.
const complete = (field, { text, more }) => {
  if (!more || field?.value.slice(0, field.selectionStart) !== text) return;
  field.setRangeText(more, text.length, text.length, "end");
};

export const show = (panel, data, tell) => {
  document.getElementById("python-stuck")?.remove();
  if (data.history && data.history.join("\0") !== history.join("\0")) {
    history = data.history;
    at = history.length;
  }
  if (data.completed) complete(panel.querySelector("#python-cell"), data.completed);
  if (watched.has(panel)) return;
  watched.add(panel);
  if (signals) tell("signals", { signals });
  panel.addEventListener("keydown", (event) => {
    if (!event.target.matches("textarea")) return;
    if (event.key !== "Enter" || !(event.ctrlKey || event.metaKey)) {
      watchField(event.target, event, tell);
      return;
    }
    event.preventDefault();
    event.target.closest("form").requestSubmit();
  });
  panel.addEventListener("click", async ({ target }) => {
    const button = target.closest("[data-act=cancel]");
    if (!button || cancelling) return;
    cancelling = true;
    await endCode(button);
    cancelling = false;
  });
};
