// The main thread: it sends user actions to Python in the worker, and applies the changes that Python sends
// back. A worker cannot do this: dropped files are only readable during the event, and defaults can only be
// prevented then. Messages are one-way, so neither side waits.

import { addEntry, addOpening, addView, setAddress, tellOpening, watchHistory } from "./address.js";
import { keepAwake, watchVisibility } from "./awake.js";
import { sendFrame, watchCameras } from "./camera.js";
import { watchComparisons } from "./compare.js";
import { droppedFiles } from "./dropped.js";
import { fetchGallery, foldStart, galleryCommands, markOpened, markUnusable, showDrawer, watchGallery } from "./gallery.js";
import { answerListening, watchListening } from "./listen.js";
import { paint, watchPads } from "./pad.js";
import { watchPalette } from "./palette.js";
import { watchPoints } from "./point.js";
import { decodeSound, playSound, watchRecorders } from "./sound.js";
import { isFirstVisit, noteVisit, showStart } from "./start/boot.js";
import { makeEarly } from "./start/early.js";
import { hasModuleWorkers, noteUp, reasonOf, startPython } from "./start/python.js";
import { copyText, watchEnter } from "./text.js";
import { themeCommands, watchTheme } from "./theme.js";
import { linkFullPage, setLinks } from "./links.js";
import { bringToFront, goTo, nameWindow, setTabs, watchTabs } from "./tabs.js";
import { showFull, watchZooms } from "./zoom.js";

const page = document.documentElement;
const find = (id) => document.getElementById(id);
let send = (message) => waiting.push(message);
const waiting = [];
let isConnected = false; // messages go to Python's worker
let commands = []; // of the palette, as Python sent them
const scripts = {}; // by view, the promise of its last call
let wantsFocus = false; // the palette has opened a sample
let patch = null; // set before the first message comes
const gallery = fetchGallery(find("gallery-list"));
const LONGEST_WAIT_MS = 3000; // of Python for a sample, at the first visit
const IN_SIGHT = 400; // pixels of a section that must be visible
const measureBar = () => page.style.setProperty("--bar", `${find("run").offsetHeight}px`);
new ResizeObserver(measureBar).observe(find("run")); // the bar is sticky, and covers that edge
// Scrolls so that the bar does not cover the element; style.css leaves focused elements inside the bar alone.
const scrollIntoSight = (element, how) => {
  page.toggleAttribute("data-scrolls", true);
  element?.scrollIntoView(how);
  page.toggleAttribute("data-scrolls", false);
};
// What Python keeps, as text by key: from visit to visit, or as long as the tab. `storage` is asked for when
// it is needed, since a browser that allows none raises an error.
const makeStore = (storage, prefix) => ({
  readAll: () => {
    try {
      const ours = Object.entries(storage()).filter(([key]) => key.startsWith(prefix));
      return Object.fromEntries(ours.map(([key, text]) => [key.slice(prefix.length), text]));
    } catch {
      return {};
    }
  },
  write: ({ key, text }) => {
    try {
      if (text) storage().setItem(prefix + key, text);
      else storage().removeItem(prefix + key);
    } catch { /* the storage is full, or not allowed: then nothing is kept */ }
  },
});
const store = makeStore(() => localStorage, "webpte inputs ");
const tabStore = makeStore(() => sessionStorage, "webpte ");
let linked = Object.fromEntries(new URLSearchParams(location.search));
const addStyles = (views) => {
  for (const view of views.filter((name) => !document.querySelector(`link[data-view="${name}"]`))) {
    const sheet = Object.assign(document.createElement("link"), { rel: "stylesheet", href: new URL(`../page/views/${view}/${view}.css`, import.meta.url).href });
    sheet.dataset.view = view;
    document.head.append(sheet);
  }
};
const early = makeEarly({
  gallery,
  addStyles,
  tell: (element, more) => act(element, more),
  // What is queued for Python is dropped; Python, if it is there, cancels what it has begun.
  leave: () => {
    linked = {};
    setAddress("");
    if (isConnected) send({ act: "go", left: true });
    else waiting.length = 0;
  },
});
if (linked.model || linked.url) {
  foldStart();
  early.show(linked);
}
const patching = import("./patch.js").then((module) => { patch = module.patch; });

// ---- from Python to the page

// Controls with data-idle are for a program that does nothing else.
const lockIdle = () => {
  for (const one of document.querySelectorAll("[data-idle]")) one.disabled = page.hasAttribute("data-busy");
};
const show = {
  // {id: markup}; Python has escaped everything in it
  html: (sections) => {
    for (const [id, markup] of Object.entries(sections)) {
      const section = find(id);
      if (section) patch(section, markup);
    }
    lockIdle();
    if ("program" in sections) nameWindow();
  },
  // {id: markup} at the end of what is there: for text that comes piece by piece
  append: (sections) => {
    for (const [id, markup] of Object.entries(sections)) find(id)?.insertAdjacentHTML("beforeend", markup);
  },
  // {id: value} into fields, such as "" after a message is sent
  value: (fields) => {
    for (const [id, value] of Object.entries(fields)) if (find(id)) find(id).value = value;
  },
  text: (lines) => {
    for (const [id, line] of Object.entries(lines)) if (find(id)) find(id).textContent = line;
    if ("status" in lines) find("status").title = lines.status; // a long one is cut
  },
  hidden: (sections) => {
    for (const [id, hidden] of Object.entries(sections)) find(id).hidden = hidden;
  },
  state: (state) => {
    page.dataset.state = state;
    if (state === "up") noteUp();
    if (state !== "ready") return;
    noteVisit();
    find("boot")?.remove(); // it may be beside a program that was chosen early
  },
  mood: (mood) => { find("status").dataset.mood = mood; },
  reveal: (id) => {
    const view = find(id)?.closest(".view[hidden]");
    if (view) goTo(view.id.replace("view-", ""));
    scrollIntoSight(find(id), { block: "nearest" });
  },
  // scrolls to a section, unless its beginning is visible, or another view is in front
  scroll: (id) => {
    const box = find(id)?.checkVisibility() && find(id).getBoundingClientRect();
    if (!box || (box.top >= 0 && box.top + Math.min(box.height, IN_SIGHT) <= innerHeight)) return;
    const calm = matchMedia("(prefers-reduced-motion: reduce)").matches;
    measureBar();
    scrollIntoSight(find(id), { block: "nearest", behavior: calm ? "auto" : "smooth" });
  },
  copy: ({ text, done }) => copyText(text).then((copied) => show.text({
    status: copied ? done : "The browser did not allow copying: click into the page, then try again.",
  })),
  // decodes a sound for an input, which a worker cannot
  hear: ({ number, file, rate, longest }) => decodeSound(file, rate, longest).then(
    (samples) => send({ act: "heard", number, samples: new Uint8Array(samples.buffer) }),
    (error) => send({ act: "heard", number, problem: error.message }),
  ),
  awake: keepAwake,
  // asks for the next picture of an input's camera
  frame: sendFrame,
  full: showFull,
  listen: answerListening,
  // plays the sound of an input
  play: playSound,
  tabs: setTabs,
  // {key, text} to be kept for the next visit, or for a reload of this tab; "" deletes the key
  store: store.write,
  tab: tabStore.write,
  // {id: pixels} to be painted onto the pads in these elements
  paint: (pads) => {
    for (const [id, pixels] of Object.entries(pads)) paint(find(id).querySelector("canvas"), pixels);
  },
  commands: (list) => {
    commands = list;
    palette.list();
  },
  // whether work on the program is under way
  busy: (now) => {
    page.toggleAttribute("data-busy", now);
    lockIdle();
  },
  // moves the focus here, if the focused element is gone or hidden
  rescue: (id) => {
    const focused = document.activeElement;
    if (focused === document.body || !focused?.checkVisibility()) find(id)?.focus({ preventScroll: true });
  },
  opened: (what) => {
    if (wantsFocus && what.any && !what.opening) requestAnimationFrame(focusFirstInput);
    markOpened(find("gallery-list"), what);
    early.opened(what);
    tellOpening(what.opening);
  },
  unusable: (problems) => markUnusable(find("gallery-list"), problems),
  entry: addEntry,
  address: setAddress,
  front: bringToFront,
  styles: addStyles,
  // {view: data} for `show(panel, data, act)` of the view's own script, in the order sent
  script: (views) => {
    for (const [view, data] of Object.entries(views)) {
      const tell = (name, more) => send({ act: `${view}:${name}`, ...more });
      scripts[view] = Promise.all([import(`../page/views/${view}/${view}.js`), scripts[view]])
        .then(([script]) => script.show(find(`view-${view}`), data, tell))
        .catch((error) => {
          console.error(error);
          show.text({ status: `The script of this view failed: ${error.message}` });
          show.mood("bad");
        });
    }
  },
  download: ({ url, name }) => Object.assign(document.createElement("a"), { href: url, download: name }).click(),
};

const connect = (worker) => {
  worker.addEventListener("message", async ({ data }) => {
    await patching; // waiting messages continue in their order
    if (!Array.isArray(data)) return; // of the start
    for (const changes of data) {
      for (const [kind, value] of Object.entries(changes)) show[kind]?.(value);
    }
  });
  gallery.then((cards) => {
    isConnected = true;
    send = (message) => worker.postMessage(message);
    const opens = Boolean(linked.model || linked.url);
    send({
      act: "hello", base: document.baseURI, hub: document.querySelector("meta[name=hf-endpoint]").content, narrow: innerWidth < 1000, cards,
      agent: navigator.userAgent, hash: location.hash,
      stored: store.readAll(), tab: tabStore.readAll(), linked: opens,
    });
    // Inputs of a link are kept from now on: the address need not repeat them.
    if (location.hash.startsWith("#inputs=")) history.replaceState(history.state, "", location.pathname + location.search);
    if (opens) send({ ...linked, act: "link" });
    waiting.forEach(send);
  });
};

// ---- the start, before Python runs

// A sample that answers at once comes before 14 MB of Python take the line.
const waited = new Promise((resolve) => setTimeout(resolve, LONGEST_WAIT_MS));
const lineIsFree = isFirstVisit() ? Promise.race([gallery.then(() => early.canAnswer()), waited]) : Promise.resolve();
const tellStart = showStart();
const failed = (reason) => {
  if (["up", "ready", "failed"].includes(page.dataset.state)) return; // the first reason stays
  page.dataset.state = "failed";
  if (!early.isShown()) page.toggleAttribute("data-open", false);
  show.mood("bad");
  show.text({ status: "Python did not start", "boot-note": `It did not start: ${reason} Reload to try again.` });
};
if (hasModuleWorkers()) {
  lineIsFree.then(() => connect(startPython(
    (told) => ("failed" in told ? failed(told.failed) : tellStart(told)),
    { counts: isFirstVisit(), keeps: !page.hasAttribute("data-embed") },
  )));
} else {
  failed("this browser has no module workers. Use Chrome 113, Firefox 141, Safari 26 or newer.");
}
patching.catch(() => failed("Idiomorph is missing: run serve.py again to set up the runtime."));
addEventListener("unhandledrejection", ({ reason }) => failed(reasonOf(reason)));
addEventListener("error", ({ error }) => { if (error) failed(error.message); }); // none: a warning of the layout

// ---- from the page to Python

const chooseEarly = ({ act: name, name: model, fields, files, ...where }) => {
  const program = name === "open-file" && files.find((file) => /\.b?pte$/i.test(file.name));
  const wanted = {
    card: { model }, go: where, "open-url": { url: fields?.url?.trim() }, "open-file": program && { file: program.name },
  }[name];
  if (wanted?.model || wanted?.url || wanted?.file) {
    foldStart();
    early.show(wanted);
  } else if (name === "go") {
    early.end();
    markOpened(find("gallery-list"), { any: false });
  }
};
const act = (element, more) => {
  const message = { ...element.dataset, ...more };
  if (early.takes(element, message)) return;
  if (page.dataset.state !== "ready") chooseEarly(message);
  addOpening(message);
  send(message);
};
watchTheme(find("theme"));
watchEnter();
setLinks(find("links"));
linkFullPage(find("full-page"));
watchPads(act);
watchComparisons();
watchZooms(act);
watchVisibility();
watchGallery(find("gallery-list"));
watchPoints(act);
watchCameras(act);
watchRecorders(act);
watchListening(act);
watchTabs((name) => {
  addView(name);
  send({ act: "view", name });
});
watchHistory((where) => act({ dataset: { ...where, act: "go" } }), () => find("error").childElementCount > 0);

// Presses a control and brings its view to the front; a field gets the focus.
const press = (element) => {
  const view = element.closest(".view[hidden]");
  if (view) goTo(view.id.replace("view-", ""));
  if (page.hasAttribute("data-open") && element.closest("#drawer")) showDrawer(true);
  if (element.matches("form")) element.requestSubmit();
  else if (element.matches("textarea, select, input:not([type=file])")) element.focus();
  else element.click();
};
const palette = watchPalette(
  () => {
    if (isConnected) send({ act: "palette" });
    return isConnected;
  },
  () => [...commands, ...galleryCommands(find("gallery-list")), ...themeCommands(find("theme"))],
  (command) => {
    if (command.view) goTo(command.view);
    const control = command.press && document.querySelector(command.press);
    if (control) press(control);
    else if (command.send) {
      wantsFocus = command.send.act === "card";
      act({ dataset: command.send });
    }
  },
);
const acting = (event) => event.target.closest?.("[data-act]");

addEventListener("click", (event) => {
  const element = acting(event);
  if (!element?.matches("button[type=button], rect")) return;
  if (element.dataset.view) goTo(element.dataset.view); // what the act shows is there
  act(element);
});
// A dragged slider sends its value a few times per second: drawing may take long.
const SLIDE_MS = 90;
const sliding = new WeakMap();
const slide = (element) => {
  const tell = () => {
    sliding.delete(element);
    act(element, { value: element.value });
  };
  if (!sliding.has(element)) sliding.set(element, setTimeout(tell, SLIDE_MS));
};
addEventListener("input", (event) => {
  const element = acting(event);
  if (element?.matches("input[type=range]")) slide(element);
  else if (element?.matches("select, textarea, input:not([type=file])")) act(element, { value: element.value });
});
addEventListener("change", (event) => {
  const element = acting(event);
  if (!element?.matches("input[type=file]") || !element.files.length) return;
  act(element, { files: [...element.files] });
  element.value = ""; // so that the same file can be chosen again
});
addEventListener("submit", (event) => {
  event.preventDefault();
  act(event.target, { fields: Object.fromEntries(new FormData(event.target)) });
});
addEventListener("keydown", (event) => {
  if (document.querySelector("dialog[open]")) return;
  if (event.key === "z" && (event.ctrlKey || event.metaKey) && find("undo") && !event.target.matches?.("input, textarea")) {
    event.preventDefault();
    find("undo").click();
  }
  if (event.key === "Enter" && (event.ctrlKey || event.metaKey) && !find("view-run").hidden) {
    event.preventDefault();
    const form = find("run-form");
    if (form) form.requestSubmit(form.querySelector("[type=submit]"));
    else if (page.dataset.state === "ready") act({ dataset: { act: "run" } }); // Python answers why not
  }
});

// A picture from the clipboard is taken like a dropped file.
addEventListener("paste", (event) => {
  const files = [...(event.clipboardData?.files ?? [])];
  if (!files.length) return;
  event.preventDefault();
  act({ dataset: { act: "open-file" } }, { files });
});

// After opening by the palette, the keyboard goes on with the first input.
const focusFirstInput = () => {
  wantsFocus = false;
  const controls = find("work").querySelectorAll("canvas.pad, select, textarea, input:not([type=file], [type=checkbox])");
  [...controls].find((one) => one.checkVisibility() && !one.closest("#run, #run-more"))?.focus({ preventScroll: true });
};

const carriesFiles = (event) => event.dataTransfer?.types.includes("Files");
const target = (event) => event.target.closest?.("[data-drop]");
const mark = (element) => {
  document.querySelectorAll(".dropping").forEach((one) => one.classList.remove("dropping"));
  (element ?? document.body).classList.add("dropping");
};
const unmark = () => document.querySelectorAll(".dropping").forEach((one) => one.classList.remove("dropping"));
addEventListener("dragover", (event) => {
  if (!carriesFiles(event)) return;
  event.preventDefault();
  mark(target(event));
});
addEventListener("dragleave", (event) => { if (!event.relatedTarget) unmark(); });
addEventListener("drop", async (event) => {
  if (!carriesFiles(event)) return;
  event.preventDefault();
  unmark();
  const { files, paths } = await droppedFiles(event.dataTransfer);
  const at = target(event);
  // A program dropped onto an input card is still opened, and several files are matched by Python.
  const here = at && !paths && files.length === 1 && !/\.pt[ed]$/i.test(files[0].name);
  const wanted = here ? { ...at.dataset, act: at.dataset.drop } : { act: "open-file" };
  act({ dataset: wanted }, { files, ...(paths && { paths }) });
});
