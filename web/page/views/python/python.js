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

export const show = (panel, data, tell) => {
  document.getElementById("python-stuck")?.remove();
  if (watched.has(panel)) return;
  watched.add(panel);
  if (signals) tell("signals", { signals });
  panel.addEventListener("keydown", (event) => {
    if (event.key !== "Enter" || !(event.ctrlKey || event.metaKey) || !event.target.matches("textarea")) return;
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
