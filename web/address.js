// The page's address and the browser's history: an entry for each program that was opened or closed and for
// each view that was chosen, so that Back goes where one was before, and not off the page.

const HELD = ["model", "url", "view"];
let shown = { search: location.search, hash: location.hash, state: history.state };

const note = () => { shown = { search: location.search, hash: location.hash, state: history.state }; };
const linked = () => Object.fromEntries([...new URLSearchParams(location.search)].filter(([name]) => HELD.includes(name)));

// Something else is open from here on: `file` is the name of what has no address. Or it is being opened: then
// this is its entry already, so that Back ends the opening and goes nowhere else. If it is not opened after all,
// the entry is that of whatever comes next.
export const addEntry = ({ file, opening }) => {
  const state = opening ? { ...history.state, opening } : file ? { file } : null;
  history[history.state?.opening ? "replaceState" : "pushState"](state, "");
  note();
};

// "?model=…" of what is open, so that the address can be shared; "" is the plain page
export const setAddress = (query) => {
  history.replaceState(history.state, "", location.pathname + query + location.hash);
  note();
};

// Someone wants something else to be opened, which Python hears of when it is up, and not busy.
export const addOpening = ({ act, name, address, fields }) => {
  const { model, url } = linked();
  const wanted = { card: name, "library-open": address, "open-url": fields?.url?.trim() }[act];
  if (wanted && wanted !== (act === "card" ? model : url)) addEntry({ opening: true });
};

// Someone chose a view. The entry is made at once, like the view is shown: Python may be busy.
export const addView = (name) => {
  const { model, url, view } = linked();
  if ((!model && !url) || view === name) return;
  addEntry({ file: history.state?.file });
  const query = new URLSearchParams(location.search);
  query.set("view", name);
  setAddress(`?${query}`);
};

// `go` is called with what the address names after Back or Forward.
export const watchHistory = (go) => addEventListener("popstate", () => {
  const elsewhere = location.search === shown.search && location.hash !== shown.hash;
  if (elsewhere) history.replaceState(shown.state, ""); // another place of the same page, such as by its skip link
  note();
  if (!elsewhere) go({ ...linked(), ...history.state });
});
