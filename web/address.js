// The page's address and the browser's history: an entry for each program that was opened or closed and for
// each view that was chosen, so that Back goes where one was before, and not off the page.

const HELD = ["model", "url", "view"];
let shown = { search: location.search, hash: location.hash, state: history.state };

const note = () => { shown = { search: location.search, hash: location.hash, state: history.state }; };
const linked = () => Object.fromEntries([...new URLSearchParams(location.search)].filter(([name]) => HELD.includes(name)));

// Something else is open from here on: `file` is the name of what has no address.
export const addEntry = ({ file }) => {
  history.pushState(file ? { file } : null, "");
  note();
};

// "?model=…" of what is open, so that the address can be shared; "" is the plain page
export const setAddress = (query) => {
  history.replaceState(history.state, "", location.pathname + query + location.hash);
  note();
};

// Someone chose a view. The entry is made at once, like the view is shown: Python may be busy.
export const addView = (name) => {
  const { model, url, view } = linked();
  if ((!model && !url) || view === name) return;
  addEntry(history.state ?? {});
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
