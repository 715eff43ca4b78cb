// Opens a trace in ui.perfetto.dev: a tab is opened at the click, asked until it answers, and sent the trace.
// On a cross-origin isolated page the browser cuts the tie to that tab: then the trace is downloaded.

const SITE = "https://ui.perfetto.dev";
const ASK_MS = 250;
const PATIENCE_MS = 20_000;
let opened = null; // the tab that waits for a trace

const download = ({ text, name }) => {
  const url = URL.createObjectURL(new Blob([text], { type: "application/json" }));
  Object.assign(document.createElement("a"), { href: url, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(url), 60_000);
};

// Waits for the answer of the tab; false if there is none.
const answers = (tab) => new Promise((resolve) => {
  const began = performance.now();
  const end = (result) => {
    clearInterval(asking);
    removeEventListener("message", hear);
    resolve(result);
  };
  const hear = ({ source, data }) => { if (source === tab && data === "PONG") end(true); };
  const asking = setInterval(() => {
    if (tab.closed || performance.now() - began > PATIENCE_MS) end(false);
    else tab.postMessage("PING", SITE);
  }, ASK_MS);
  addEventListener("message", hear);
});

// Must be called while a click is handled, else the browser blocks the tab.
export const openTab = () => { opened = window.open(SITE); };

// Returns whether the tab took the trace; if not, it is downloaded.
export const sendTrace = async (trace) => {
  const tab = opened;
  opened = null;
  if (!tab || globalThis.crossOriginIsolated || !(await answers(tab))) {
    download(trace);
    return false;
  }
  const buffer = new TextEncoder().encode(trace.text).buffer;
  tab.postMessage({ perfetto: { buffer, title: trace.title, fileName: trace.name } }, SITE);
  return true;
};
