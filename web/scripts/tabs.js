// The tabs of the views. The page switches at once, and Python draws later if it is busy.

const find = (id) => document.getElementById(id);
const PEEK = 32; // pixels of the neighbour that stay visible, as a hint that there is one
const all = () => [...find("tabs").children];

// Scrolls only the row: scrollIntoView would scroll the page, too.
export const showInRow = (row, one) => {
  const [whole, box] = [row.getBoundingClientRect(), one.getBoundingClientRect()];
  if (box.left < whole.left) row.scrollLeft -= whole.left - box.left + PEEK;
  else if (box.right > whole.right) row.scrollLeft += box.right - whole.right + PEEK;
};

const HOME = document.title;
// Names the browser's tab by the program, or one that is to come, and the view in front, unless that is the first.
export const nameWindow = (title = find("program").querySelector("h2")?.textContent) => {
  const front = all().findIndex((tab) => tab.ariaSelected === "true");
  document.title = title ? [title, ...(front > 0 ? [all()[front].textContent] : []), "webpte"].join(" · ") : HOME;
};

// Shows the panel of one view, and marks its tab.
export const bringToFront = (name) => {
  for (const tab of all()) {
    const chosen = tab.dataset.name === name;
    tab.ariaSelected = String(chosen);
    tab.tabIndex = chosen ? 0 : -1; // one stop for the Tab key; arrows go from tab to tab
    find(`view-${tab.dataset.name}`).hidden = !chosen;
    if (chosen) showInRow(find("tabs"), tab);
  }
  nameWindow();
};

const makeTab = (name, title) => {
  const tab = document.createElement("button");
  Object.assign(tab, { id: `tab-${name}`, type: "button", role: "tab", textContent: title });
  tab.setAttribute("aria-controls", `view-${name}`);
  tab.dataset.name = name;
  return tab;
};

// [[name, title]]; the one in front stays there if it is among them.
export const setTabs = (list) => {
  const bar = find("tabs");
  const front = all().find((tab) => tab.ariaSelected === "true")?.dataset.name;
  const tabs = list.map(([name, title]) => find(`tab-${name}`) ?? makeTab(name, title));
  for (const tab of all().filter((one) => !tabs.includes(one))) {
    find(`view-${tab.dataset.name}`).hidden = true;
    tab.remove();
  }
  tabs.forEach((tab, at) => { // a tab that moves would lose the focus
    if (bar.children[at] !== tab) bar.insertBefore(tab, bar.children[at] ?? null);
  });
  bar.hidden = tabs.length < 2;
  bringToFront(list.some(([name]) => name === front) ? front : list[0]?.[0]);
};

let tellChoice = () => {};

// Shows a view without moving the focus; does nothing if it is in front, or has no tab.
export const goTo = (name) => {
  if (find(`tab-${name}`)?.ariaSelected !== "false") return;
  bringToFront(name);
  tellChoice(name);
};

// `tell` is called with the name of the view that someone chose.
export const watchTabs = (tell) => {
  tellChoice = tell;
  new ResizeObserver(() => {
    const chosen = all().find((tab) => tab.ariaSelected === "true");
    if (chosen) showInRow(find("tabs"), chosen);
  }).observe(find("tabs"));
  const choose = (tab) => {
    goTo(tab.dataset.name);
    tab.focus();
    showInRow(find("tabs"), tab); // the focus may have moved the row
  };
  find("tabs").addEventListener("click", (event) => {
    const tab = event.target.closest("[role=tab]");
    if (tab) choose(tab);
  });
  find("tabs").addEventListener("keydown", (event) => {
    const tabs = all();
    const now = tabs.indexOf(event.target);
    const next = { ArrowRight: now + 1, ArrowLeft: now - 1, Home: 0, End: tabs.length - 1 }[event.key];
    if (next === undefined || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    choose(tabs[(next + tabs.length) % tabs.length]);
  });
};
