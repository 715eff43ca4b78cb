// A program that is chosen before Python is there: its title, how far the start is, and its input, which can be
// used at once. A drawing, a question and files wait here, and are handed to the program's own view when that is
// drawn. The inputs look as in these views, whose styles they have. A sample that was compiled answers at once; the
// program's own view shows this answer until it has its own.

import { button, make } from "../device.js";
import { markOpened, picture } from "../gallery.js";
import { copyDrawing } from "../pad.js";
import { nameWindow } from "../tabs.js";
import { makeAnswers } from "./answers.js";
import { nameStart } from "./boot.js";

const PAD = { width: 280, height: 280, rows: 28, columns: 28 }; // of most drawings; another pad gets it scaled
// By kind of input: what takes it over in the program's view; `shows` is there earlier.
const TAKERS = {
  draw: { taker: "canvas.pad" },
  chat: { taker: "#chat-text" },
  rank: { taker: "[type=submit]:not(:disabled)", shows: ".rank-form" },
};
const FILES = {
  picture: { what: "Upload", accept: "image/*", kind: "image/" },
  sound: { what: "Upload", accept: "audio/*", kind: "audio/" },
};
const WAITS = "The answer comes as soon as the program is ready.";
const isProgram = ({ name }) => /\.(b?pte|ptd)$/i.test(name);
const find = (id) => document.getElementById(id);
const list = () => find("gallery-list");

const kindOf = (card, view) => {
  const [first] = card?.inputs ?? [];
  if (view === "chat" || view === "rank") return view;
  if (view === "teach") return "draw";
  if (view !== "run") return "";
  return first?.fill === "draw" ? "draw" : first?.layout ? "picture" : first?.rate ? "sound" : "";
};

const withData = (element, data) => {
  Object.assign(element.dataset, data);
  return element;
};
const acting = (text, act, className = "") => withData(button(text, null, className), { act });

const decoded = (name) => {
  try {
    return decodeURIComponent(name);
  } catch {
    return name; // it has a % of its own
  }
};

// ---- inputs by kind

const drawing = () => {
  const { rows, columns, ...size } = PAD;
  const canvas = withData(make("canvas", { className: "pad", ...size, tabIndex: 0, role: "application", ariaLabel: "Drawing pad" }), { act: "draw", rows, columns });
  canvas.setAttribute("aria-describedby", "early-keys");
  const keys = "Draw here. Keys: arrows move the pen, Space puts it down or lifts it, Delete clears.";
  const side = make("div", { className: "pad-side" },
    acting("Clear", "clear-drawing"), make("p", { className: "note", id: "early-keys", textContent: keys }));
  const pen = make("span", { className: "pad-pen", hidden: true });
  return make("div", { className: "drawing" }, make("div", { className: "pad-box" }, canvas, pen), side);
};

const files = (card, { what, accept, kind }) => {
  const chosen = withData(make("input", { type: "file", accept, multiple: kind === "image/", ariaLabel: what }), { act: "open-file" });
  const example = [card.files?.example ?? []].flat()[0];
  const shown = make("div", { id: "early-shown" });
  if (kind === "image/" && example) shown.append(make("img", { src: `./${card.folder}${example}`, alt: "The example" }));
  return make("div", { className: "early-files" }, make("div", { className: "controls" }, make("label", { className: "button" }, what, chosen)), shown);
};

const field = (name, label, properties) =>
  make("label", {}, make("span", { className: "label", textContent: label }), make(name, { autocomplete: "off", ...properties }));

const form = (className, act, ...children) => withData(make("form", { className }, ...children), { act });

const chat = (card) => {
  const asked = (card?.questions ?? []).map((text) => withData(acting(text, "early-ask"), { text }));
  const log = make("div", { className: "chat-log", id: "early-log", tabIndex: 0, role: "log", ariaLabel: "Conversation" },
    make("div", { className: "chat-questions" }, make("p", { className: "soft", textContent: asked.length ? "Try" : "No messages yet." }), ...asked));
  const text = withData(make("textarea", { name: "text", rows: 2, placeholder: "Ask something", autocomplete: "off", ariaLabel: "Message" }), { enter: "submit" });
  const sending = make("button", { type: "submit", className: "primary", textContent: "Send" });
  return make("div", { className: "chat-main" }, log, form("chat-form", "early-ask", make("div", { className: "chat-box" }, text, sending)));
};

const rank = (card) => form("rank-form", "early-rank",
  field("input", "query", { type: "text", name: "query", placeholder: card?.questions?.[0] ?? "" }),
  field("textarea", "lines to rank", { name: "lines", rows: 8, placeholder: "One sentence in each line; empty: the examples" }),
  make("button", { type: "submit", className: "primary", textContent: "Rank" }));

const inputOf = (kind, card) => {
  if (kind === "chat") return chat(card);
  if (kind === "rank") return rank(card);
  const [first] = card?.inputs ?? [];
  const told = first?.meaning ? [make("p", { className: "note meaning", textContent: first.meaning })] : [];
  const legend = make("legend", {}, make("span", { className: "title", textContent: first?.name ?? "Input" }));
  return make("div", { className: "inputs" }, make("fieldset", { className: "input" }, legend, ...told, kind === "draw" ? drawing() : files(card, FILES[kind])));
};

// The pixels of a pad as a picture: its ink is white.
const pictureOf = ({ rows, columns }, grey) => {
  const data = new Uint8ClampedArray(3 * rows * columns);
  grey.forEach((level, at) => data.fill(level, 3 * at, 3 * at + 3));
  return { width: Number(columns), height: Number(rows), data };
};

// The frame of an answer, as outputs/view.py draws it.
const outputCard = (card) => {
  const [first] = card.outputs ?? [];
  const head = make("div", { className: "output-head" }, make("h3", {}, make("span", { className: "title", textContent: first?.name ?? "Output" })));
  const told = first?.meaning ? [make("p", { className: "note", textContent: first.meaning })] : [];
  const shown = make("div", { className: "rendered" });
  const output = make("section", { className: "output" }, head, ...told, shown);
  const title = make("div", { className: "card-head" }, make("h2", { textContent: "Output" }));
  return { shown, element: make("div", { className: "card" }, title, make("div", { className: "outputs" }, output)) };
};

// ---- the section

// `addStyles(views)` loads styles of views, `tell(element, more)` sends an act to Python, and `leave()` forgets what
// was chosen, in place of the browser's history.
export const makeEarly = ({ gallery, addStyles, tell, leave }) => {
  const section = find("early");
  const homes = new Map(); // of sections that are borrowed: where they belong
  let now = null; // what is chosen, and what was done with it
  let rest = null; // of one whose view is shown, but cannot take what waited yet
  let isHeld = false; // a stroke or a word is in the making: it would be cut
  const answer = make("div", { className: "early-answer", ariaLive: "polite" });
  const answerNone = make("p", { className: "outputs-none", textContent: "The answer appears here." });

  const borrow = (id, place) => {
    const element = find(id);
    if (!element) return;
    if (!homes.has(element)) {
      const home = document.createComment("");
      element.before(home);
      homes.set(element, home);
    }
    place.append(element);
  };
  const giveBack = () => {
    for (const [element, home] of homes) home.replaceWith(element);
    homes.clear(); // where Python has drawn the adapter, there is no place for the start
    nameStart("");
  };

  const note = (text) => { find("early-note").textContent = text; };

  const showAnswer = (card, results) => {
    if (!results) {
      answer.remove();
      answerNone.remove();
      if (now.drawn || now.files.length) note(WAITS);
      return;
    }
    const { shown, element } = outputCard(card);
    shown.append(results);
    answer.replaceChildren(element);
    note("");
  };
  const startAnswers = (card, kind) => {
    const mine = now;
    const answers = ["draw", "picture"].includes(kind) && makeAnswers(card, (results) => { if (now === mine) showAnswer(card, results); });
    const example = kind === "picture" && [card.files?.example ?? []].flat()[0];
    if (answers && example) answers.ask(async () => (await fetch(`./${card.folder}${example}`)).blob());
    return answers || null;
  };
  const dropAnswer = () => {
    answer.remove();
    answer.replaceChildren();
  };
  // The answer is shown in the program's own view, until that has its own.
  const dropAnswered = () => {
    if (find("work").contains(answer) && ["outputs", "error"].some((id) => find(id).childElementCount)) dropAnswer();
  };

  const draw = (card) => {
    const { wanted } = now;
    const address = wanted.url && wanted.url.split(/[?#]/)[0].replace(/(?<!\/)\/+$/, "");
    const title = card?.title ?? card?.name ?? wanted.model ?? wanted.file ?? decoded(address.split("/").pop() || address);
    now.view = wanted.view || card?.view || (card?.inputs?.length ? "run" : "");
    now.kind = card?.problem ? "" : kindOf(card, now.view);
    dropAnswer();
    now.answers = startAnswers(card, now.kind);
    giveBack();
    const head = make("div", { className: "early-head" }, make("div", {}, make("h2", { textContent: title }),
      make("p", { className: "soft", textContent: card?.problem ?? card?.task ?? wanted.url ?? "" })));
    if (card) head.prepend(make("span", { className: "entry-picture" }, picture(card)));
    head.append(acting("Cancel", "early-cancel", "early-cancel"));
    const start = make("div", { className: "card early-start" });
    const told = make("p", { className: "note", id: "early-note", role: "status" });
    if (now.kind) {
      if (["chat", "rank"].includes(now.kind)) addStyles([now.kind]);
      now.inputs = inputOf(now.kind, card);
      const input = make("div", { className: now.kind === "chat" ? "card chat" : "card" }, now.inputs, told);
      section.replaceChildren(head, make("div", { className: "bench" },
        make("div", { className: "bench-in" }, input), make("div", { className: "bench-out" }, ...(now.answers ? [answer, answerNone] : []), start)));
    } else section.replaceChildren(head, start, told);
    section.setAttribute("aria-label", title);
    nameStart(title);
    nameWindow(title);
    borrow("boot", start);
    borrow("progress", start);
  };

  const end = () => {
    now?.answers?.end();
    now = null;
    giveBack();
    section.replaceChildren();
    nameWindow();
  };

  const show = (wanted) => {
    now?.answers?.end();
    const mine = now = { wanted, files: [] };
    rest = null;
    draw(null);
    gallery.then((cards) => {
      const card = cards.find(({ name }) => name === wanted.model);
      if (now === mine && card) draw(card);
    });
    if (!document.activeElement?.checkVisibility() || document.activeElement === document.body) section.focus({ preventScroll: true });
  };

  // ---- what is done before Python is there

  const ask = (text) => {
    if (!text.trim()) return;
    now.sent = text;
    const said = make("article", { className: "chat-line chat-user" },
      make("div", { className: "chat-line-head" }, make("h3", { textContent: "You" })), make("div", { className: "chat-said", textContent: text }));
    find("early-log").replaceChildren(said);
    for (const one of section.querySelectorAll("[type=submit]")) one.ariaDisabled = "true";
    note("Sent. The answer comes as soon as the model is ready.");
  };
  const keepFiles = (chosen) => {
    now.files = chosen;
    const shown = find("early-shown");
    const [first] = chosen;
    if (shown && first.type.startsWith("image/")) {
      const seen = make("img", { src: URL.createObjectURL(first), alt: first.name });
      seen.onload = () => URL.revokeObjectURL(seen.src);
      shown.replaceChildren(seen);
    } else shown?.replaceChildren();
    note(`${chosen.map(({ name }) => name).join(", ")}: used as soon as the program is ready.`);
    answer.replaceChildren();
    now.answers?.forget();
    if (chosen.length === 1 && first.type.startsWith("image/")) now.answers?.ask(() => first);
  };
  const acts = {
    draw: ({ pixels }, pad) => {
      now.drawn = true;
      if (!answer.childElementCount) note(WAITS);
      now.answers?.ask(() => pictureOf(pad.dataset, pixels));
    },
    "clear-drawing": () => {
      now.drawn = false;
      now.answers?.forget();
      answer.replaceChildren();
      note("");
    },
    "early-ask": ({ text, fields }, element) => {
      if (now.sent) return;
      ask(text ?? fields.text);
      if (fields) element.reset();
    },
    "early-rank": () => {
      now.asked = true;
      note("The lines are ranked as soon as the program is ready.");
    },
    "early-cancel": () => {
      if (history.state?.opening) return history.back();
      markOpened(list(), { any: false });
      end();
      return leave();
    },
  };

  // ---- handing over

  const focusLike = (mine, theirs) => {
    if (document.activeElement !== mine) return;
    theirs.focus({ preventScroll: true });
    if (mine.selectionStart !== null) theirs.setSelectionRange?.(mine.selectionStart, mine.selectionEnd);
  };
  const fillForm = ({ inputs }, theirs) => {
    for (const mine of inputs.querySelectorAll("[name]")) {
      const other = theirs.elements[mine.name];
      if (mine.value) other.value = mine.value;
      focusLike(mine, other);
    }
  };
  const give = {
    draw: ({ inputs, drawn }, pad) => {
      const mine = inputs.querySelector("canvas.pad");
      focusLike(mine, pad);
      if (drawn) tell(pad, { pixels: copyDrawing(mine, pad) });
    },
    chat: (done, text) => {
      fillForm(done, text.form);
      if (done.sent) tell({ dataset: { act: "chat:propose", text: done.sent } });
    },
    rank: (done, { form: theirs }) => {
      fillForm(done, theirs);
      if (done.asked) theirs.requestSubmit();
    },
  };
  // The pad of the Run view is there unless the last visit left another input.
  const askForPad = (panel) => {
    const fill = now.drawn && panel.querySelector("[data-act=fill]:has([value=draw])");
    if (!fill) return Boolean(panel.querySelector("#inputs > *")); // else its inputs are not drawn yet
    if (!now.refilled) tell(fill, { value: "draw" });
    now.refilled = true;
    return false;
  };
  // Shows the program's own view, once that has drawn its input; what has none comes at once.
  const handOver = () => {
    dropAnswered();
    const later = rest && document.querySelector(rest.taker);
    if (later) {
      give[rest.done.kind](rest.done, later);
      rest = null;
    }
    if (!now?.isOpen || isHeld) return;
    const done = now;
    const panel = find(`view-${done.view}`);
    if (done.kind in TAKERS && panel && !panel.hidden && !find("error").childElementCount) {
      const { taker, shows = taker } = TAKERS[done.kind];
      const ready = panel.querySelector(taker);
      if (ready) give[done.kind](done, ready);
      else if (panel.querySelector(shows)) rest = { done, taker: `#${panel.id} ${taker}` };
      else if (done.kind !== "draw" || !askForPad(panel)) return;
    }
    end();
    if (done.files.length) tell({ dataset: { act: "open-file" } }, { files: done.files });
    if (answer.childElementCount) find("outputs-none").after(answer);
    dropAnswered();
  };
  new MutationObserver(handOver).observe(find("work"), { childList: true, subtree: true, attributes: true, attributeFilter: ["hidden", "disabled"] });
  new MutationObserver(handOver).observe(find("error"), { childList: true });
  for (const [begin, ends] of [["pointerdown", ["pointerup", "pointercancel"]], ["compositionstart", ["compositionend"]]]) {
    section.addEventListener(begin, ({ target }) => { isHeld = begin !== "pointerdown" || target.matches("canvas"); });
    for (const name of ends) addEventListener(name, () => {
      if (!isHeld) return;
      isHeld = false;
      setTimeout(handOver); // once the pad has taken the stroke
    });
  }

  return {
    show,
    end,
    isShown: () => Boolean(now),
    // Resolves once the program can answer, if it can before Python is there.
    canAnswer: async () => { await now?.answers?.opened; },
    // Takes an act of the section, or files for the program that is to come; returns whether it was one.
    takes: (element, message) => {
      if (!now) return false;
      if (message.act === "open-file") {
        if (message.files.some(isProgram)) return false;
        keepFiles(message.files);
        return true;
      }
      if (!section.contains(element instanceof Node ? element : null)) return false;
      acts[message.act]?.(message, element);
      return true;
    },
    // Follows Python, which opens what was chosen.
    opened: ({ any, opening }) => {
      if (!now) {
        if (!any || opening) dropAnswer();
        return;
      }
      if (!any) {
        rest = null;
        dropAnswer();
        end();
      } else if (!opening) {
        now.isOpen = true;
        queueMicrotask(handOver); // the same message brings the view to the front
      }
    },
  };
};
