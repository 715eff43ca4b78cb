// The page's address and the browser's history: opening or closing a program and choosing a view add an entry,
// so that Back stays on the page.

const HELD = ["model", "url", "view"];
let opening = false; // whether the current entry's program is being opened
let shown = { search: location.search, hash: location.hash, state: history.state };

const note = () => { shown = { search: location.search, hash: location.hash, state: history.state }; };
const linked = () => Object.fromEntries([...new URLSearchParams(location.search)].filter(([name]) => HELD.includes(name)));

// Adds an entry for another program; `file` names one without an address. With `opening` the entry is added
// when opening begins, so that Back cancels it. If it fails, the next program reuses the entry.
export const addEntry = ({ file, opening: begins = false }) => {
  opening = begins;
  const state = begins ? { ...history.state, opening: true } : file ? { file } : null;
  history[history.state?.opening ? "replaceState" : "pushState"](state, "");
  note();
};

// Notes whether Python is opening something.
export const tellOpening = (goesOn) => { opening = goesOn; };

// Sets the query ("?model=…") of what is open, so that the address can be shared; "" is the plain page.
export const setAddress = (query) => {
  history.replaceState(history.state, "", location.pathname + query + location.hash);
  note();
};

// Adds an entry when a program is requested; Python may still be starting, or busy.
export const addOpening = ({ act, name, address, fields }) => {
  const { model, url } = linked();
  const wanted = { card: name, "library-open": address, "open-url": fields?.url?.trim() }[act];
  if (wanted && wanted !== (act === "card" ? model : url)) addEntry({ opening: true });
};

// Adds an entry for a chosen view, at once: Python may be busy.
export const addView = (name) => {
  const { model, url, view } = linked();
  if ((!model && !url) || view === name) return;
  addEntry({ file: history.state?.file });
  const query = new URLSearchParams(location.search);
  query.set("view", name);
  setAddress(`?${query}`);
};

// Calls `go` after Back or Forward with what the address names, and whether the entry of an opening was `left`.
// An entry whose opening ended without a message (`isTold`) is skipped: Back would do nothing visible.
export const watchHistory = (go, isTold) => addEventListener("popstate", () => {
  const left = Boolean(shown.state?.opening);
  const elsewhere = location.search === shown.search && location.hash !== shown.hash;
  if (elsewhere) history.replaceState(shown.state, ""); // an anchor of the same page, such as the skip link
  note();
  if (elsewhere) return;
  if (left && !opening && !isTold()) history.back();
  else go({ ...linked(), ...history.state, left });
});
