// The progress of the start, until Python draws the page itself.

const VISITED = "webpte visited"; // everything that the start needs was fetched once
const find = (id) => document.getElementById(id);

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

// Shows the start: returns a function that takes what Python's worker tells of it.
export const showStart = () => {
  const began = performance.now();
  let fetched = "";
  const ticking = setInterval(() => {
    if (!find("boot-time") || document.documentElement.dataset.state === "failed") return clearInterval(ticking);
    find("boot-time").textContent = `${fetched}${Math.round((performance.now() - began) / 1000)} s`;
  }, 250);
  if (!isFirstVisit() && !find("early").childElementCount) find("boot-note").textContent = "Cached from an earlier visit.";
  return ({ step, fetched: bytes }) => {
    if (step) stage(step);
    const bar = find("boot-bar");
    if (!bytes || !bar) return; // or Python has started already
    const [done, total] = bytes;
    if (done < total) Object.assign(bar, { max: total, value: done });
    else bar.removeAttribute("value");
    fetched = done < total ? `${Math.floor((100 * done) / total)} % · ` : "";
  };
};
