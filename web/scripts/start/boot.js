// The progress of the start, until Python draws the page itself. PyScript's worker fetches Python without reporting progress; so the page
// requests the same files first, and the worker finds them in the browser's cache.

const OWN = ["pyodide.asm.wasm", "pyodide.asm.mjs", "python_stdlib.zip"];

// Returns the addresses, and the sizes of files that servers compress, by name.
const files = async () => {
  const config = new URL(document.querySelector("script[config]").getAttribute("config"), document.baseURI);
  const { interpreter, packages, files: archives, sizes } = await (await fetch(config)).json();
  const folder = new URL(".", new URL(interpreter, config));
  const lock = await (await fetch(new URL("pyodide-lock.json", folder))).json();
  const wheels = packages.map((name) => lock.packages[name].file_name);
  const own = [...OWN, ...wheels].map((name) => new URL(name, folder));
  return { addresses: [...own, ...Object.keys(archives).map((name) => new URL(name, config))], sizes };
};

// Resolves once all files are there; `tell(done, total)` gets bytes. Failures are ignored: PyScript requests
// the files again, and reports errors.
const countBytes = async (tell) => {
  let [done, total, open] = [0, 0, 0];
  const { addresses, sizes } = await files();
  const count = async (address) => {
    open++;
    const answer = await fetch(address);
    const name = address.pathname.split("/").pop();
    total += sizes[name] ?? Number(answer.headers.get("Content-Length") ?? 0);
    open--;
    for (const reader = answer.body.getReader(); ;) {
      const step = await reader.read();
      if (step.done) return;
      done += step.value.byteLength;
      if (!open) tell(done, Math.max(total, done)); // the total is known once all have answered
    }
  };
  await Promise.allSettled(addresses.map(count));
};

const VISITED = "webpte visited"; // everything that the start needs was fetched once
const find = (id) => document.getElementById(id);
const megabytes = (bytes) => (bytes / 1e6).toFixed(1);

export const isFirstVisit = () => {
  try {
    return !localStorage.getItem(VISITED);
  } catch {
    return true; // not allowed: then every visit counts as the first
  }
};

export const noteVisit = () => {
  try {
    localStorage.setItem(VISITED, "yes");
  } catch { /* not allowed */ }
};

// Names what starts: Python, or with `title` the program that was chosen before Python is there.
export const nameStart = (title) => {
  if (!find("boot-what")) return;
  find("boot-what").textContent = title ? `${title}:` : "Starting Python …";
  if (document.documentElement.dataset.state !== "failed") {
    find("boot-note").textContent = title ? "It opens as soon as Python is ready." : "";
  }
};

// Marks a step of the start: those before it are done.
const stage = (name) => {
  const steps = [...document.querySelectorAll("[data-boot]")];
  const now = steps.findIndex((step) => step.dataset.boot === name);
  steps.forEach((step, at) => {
    step.className = `step step-${at < now ? "done" : at === now ? "now" : "next"}`;
  });
};

// Shows bytes and seconds. `lineIsFree` is awaited before Python's files are fetched.
export const showStart = async (lineIsFree) => {
  const began = performance.now();
  let fetched = "";
  const ticking = setInterval(() => {
    if (!find("boot-time") || document.documentElement.dataset.state === "failed") return clearInterval(ticking);
    find("boot-time").textContent = `${fetched}${Math.round((performance.now() - began) / 1000)} s`;
  }, 250);
  addEventListener("py:progress", ({ detail }) => {
    if (detail === "Loading Pyodide") stage("python");
    if (detail === "Loaded interpreter") stage("webpte");
  });
  if (!isFirstVisit()) {
    if (!find("early").childElementCount) find("boot-note").textContent = "Cached from an earlier visit.";
    return;
  }
  await lineIsFree;
  await countBytes((done, total) => {
    const bar = find("boot-bar");
    if (!bar) return; // Python has started already
    Object.assign(bar, { max: total, value: done });
    fetched = `${megabytes(done)} of ${megabytes(total)} MB · `;
  }).catch(() => {}); // the rest cannot be measured
  find("boot-bar")?.removeAttribute("value");
};
