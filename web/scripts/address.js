// The page's address and the browser's history: an entry for each program that was opened or closed and for
// each view that was chosen, so that Back goes where one was before, and not off the page.

const HELD = ["model", "url", "view"];
let opening = false; // what the entry is for: one whose opening was cancelled, or has failed, is spent
let shown = { search: location.search, hash: location.hash, state: history.state };

const note = () => { shown = { search: location.search, hash: location.hash, state: history.state }; };
const linked = () => Object.fromEntries([...new URLSearchParams(location.search)].filter(([name]) => HELD.includes(name)));

// Something else is open from here on: `file` is the name of what has no address. Or it is being opened: then
// this is its entry already, so that Back ends the opening and goes nowhere else. If it is not opened after all,
// the entry is that of whatever comes next.
export const addEntry = ({ file, opening: begins = false }) => {
  opening = begins;
  const state = begins ? { ...history.state, opening: true } : file ? { file } : null;
  history[history.state?.opening ? "replaceState" : "pushState"](state, "");
  note();
};

// Whether Python is opening something.
export const tellOpening = (goesOn) => { opening = goesOn; };

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

// `go` is called with what the address names after Back or Forward, and with whether one `left` the entry of
// an opening. Of that there is a message to be seen (`isTold`), or it is passed over: Back would do nothing.
export const watchHistory = (go, isTold) => addEventListener("popstate", () => {
  const left = Boolean(shown.state?.opening);
  const elsewhere = location.search === shown.search && location.hash !== shown.hash;
  if (elsewhere) history.replaceState(shown.state, ""); // another place of the same page, such as by its skip link
  note();
  if (elsewhere) return;
  if (left && !opening && !isTold()) history.back();
  else go({ ...linked(), ...history.state, left });
});
