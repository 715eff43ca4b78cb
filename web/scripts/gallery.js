// The gallery's cards, drawn here so that they can be chosen before Python has started. Their content is
// inserted as text, never as markup.

const SVG = "http://www.w3.org/2000/svg";
// Icons of cards without a picture, by the kind of input: paths in a box of 24 by 24.
const ICONS = {
  chat: "M4 5h16v11H10l-5 4v-4H4z M8 9h8 M8 12h5",
  draw: "M5 19l1-4L16 5l3 3L9 18z M14 7l3 3 M11 20h8",
  picture: "M4 5h16v14H4z M4 16l5-5 4 4 3-3 4 4 M15.5 9.5h.01",
  sound: "M4 12h2 M8 8v8 M11 5v14 M14 9v6 M17 7v10 M20 12h.01",
  program: "M12 3l8 4.5v9L12 21l-8-4.5v-9z M12 12l8-4.5 M12 12v9 M12 12L4 7.5",
};

const sizeText = (bytes) => {
  if (!(bytes > 0)) return "";
  if (bytes < 1024) return `${bytes} B`;
  const [unit, by] = bytes < 1024 ** 2 ? ["KiB", 1024] : bytes < 1024 ** 3 ? ["MiB", 1024 ** 2] : ["GiB", 1024 ** 3];
  return `${(bytes / by).toPrecision(bytes / by < 1000 ? 3 : 4)} ${unit}`;
};

const make = (name, className, ...children) => {
  const element = Object.assign(document.createElement(name), { className });
  element.append(...children);
  return element;
};

// The kinds of models, as the cards name them: by the view that opens, or else by the first input.
const OF_VIEWS = { chat: "Chat", rank: "Text", documents: "Text", teach: "Training", train: "Training", speech: "Audio" };
const OF_INPUTS = { picture: "Image", sound: "Audio" };

const inputOf = ({ inputs }) => {
  const [first] = inputs ?? [];
  return first?.layout ? "picture" : first?.rate ? "sound" : "program";
};

const icon = (card) => {
  const kind = card.icon ?? (card.view === "chat" ? "chat" : inputOf(card));
  const svg = document.createElementNS(SVG, "svg");
  const path = document.createElementNS(SVG, "path");
  svg.setAttribute("viewBox", "0 0 24 24");
  path.setAttribute("d", ICONS[kind] ?? ICONS.program);
  svg.append(path);
  return svg;
};

export const picture = (card) => {
  const name = card.picture ?? card.files?.picture;
  if (!name) return icon(card);
  return Object.assign(new Image(), { src: `./${card.folder}${name}`, alt: "", loading: "lazy" });
};

const drawCard = (card) => {
  const button = make("button", "entry");
  const facts = make("span", "entry-facts");
  const kind = OF_VIEWS[card.view] ?? OF_INPUTS[inputOf(card)];
  if (kind) facts.append(make("span", "entry-kind", kind));
  facts.append(sizeText(card.size));
  const about = make("span", "entry-about", card.problem ?? card.task ?? "");
  about.id = `entry-${card.name}`;
  button.append(
    make("span", "entry-picture", picture(card)),
    make("span", "entry-text", make("strong", "", card.title ?? card.name), about, facts),
  );
  Object.assign(button, { type: "button", ariaLabel: card.title ?? card.name, title: [card.about ?? card.notes ?? card.task, card.licence].filter(Boolean).join(" · ") });
  button.setAttribute("aria-describedby", about.id);
  Object.assign(button.dataset, { act: "card", name: card.name });
  return make("li", "", button);
};

const drawGroup = (title, name, cards) => {
  if (!cards.length) return [];
  const heading = make("h3", "", title);
  heading.id = name;
  const list = make("ul", name, ...cards.map(drawCard));
  list.setAttribute("aria-labelledby", name);
  return [heading, list];
};

// Fetches the cards and draws them into the list; none if the server has no gallery.
export const fetchGallery = async (list) => {
  try {
    const answer = await fetch("./gallery.json");
    const cards = answer.ok ? await answer.json() : [];
    const tests = cards.filter(({ group }) => group === "test");
    const demos = cards.filter(({ group }) => group !== "test");
    list.replaceChildren(...drawGroup("Demos", "gallery-demos", demos), ...drawGroup("Test programs", "gallery-tests", tests));
    return cards;
  } catch (error) {
    console.error(error);
    return [];
  } finally {
    document.documentElement.toggleAttribute("data-gallery", true); // the content below no longer moves
  }
};

// Returns the cards as rows of the palette.
export const galleryCommands = (list) =>
  [...list.querySelectorAll("button[data-act]")].map((entry) => ({
    title: `Open ${entry.ariaLabel}`,
    kind: "Samples",
    also: "demo example model",
    send: { ...entry.dataset },
  }));

// Folds the start, and scrolls to the top, where the program opens.
export const foldStart = () => {
  const root = document.documentElement;
  if (!root.hasAttribute("data-open")) window.scrollTo(0, 0);
  root.toggleAttribute("data-open", true);
  showDrawer(false);
};

// Shows or hides the samples and the box that opens files, while a program is open.
export const showDrawer = (shown) => {
  document.documentElement.toggleAttribute("data-drawer", shown);
  document.getElementById("drawer-button").setAttribute("aria-expanded", String(shown));
};

// Folds the start as soon as a card is clicked, before Python answers.
export const watchGallery = (list) => {
  list.addEventListener("click", (event) => {
    if (event.target.closest("[data-act=card]")) foldStart();
  });
  document.getElementById("drawer-button").addEventListener("click", () => {
    showDrawer(!document.documentElement.hasAttribute("data-drawer"));
  });
};

// Shows errors {name: why} in the place of cards that Python cannot read.
export const markUnusable = (list, problems) => {
  for (const entry of list.querySelectorAll(".entry")) {
    const why = problems[entry.dataset.name];
    if (!why) continue;
    entry.dataset.unusable = "";
    entry.querySelector(".entry-about").textContent = why;
  }
};

// Marks the card that is open; with any program open, the start is folded.
export const markOpened = (list, { any, card, opening }) => {
  const root = document.documentElement;
  if (!any) {
    root.toggleAttribute("data-open", false);
    showDrawer(false);
  } else if (!root.hasAttribute("data-open") || opening) foldStart();
  for (const entry of list.querySelectorAll(".entry")) {
    if (entry.dataset.name === card) entry.setAttribute("aria-current", "true");
    else entry.removeAttribute("aria-current");
  }
};
