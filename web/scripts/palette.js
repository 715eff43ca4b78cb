// The palette: every command by name, opened by Ctrl K. Python says what can be done now, the
// gallery has its cards; searching is done here, so it never waits for Python.

const SHOWN = 60; // rows
const RECENT = 5; // commands that are listed first while nothing is typed
const KEY = "webpte recent"; // their titles, from visit to visit
const LONGEST = 90; // letters of a title that are searched
const PATIENCE = 1000; // milliseconds that Enter waits for Python's answer
const find = (id) => document.getElementById(id);
const LETTER = /[\p{L}\p{N}]/u;
const keysText = (keys) => (/Mac|iP/.test(navigator.platform) ? keys.replace("Ctrl ", "⌘ ") : keys);

// Matches the letters of the query in a title, in order: { score, places }, or null. Starts of words and
// consecutive letters count most, so "gtg" finds "Go to Graph", and "run" finds Run first.
export const match = (query, title) => {
  const wanted = [...query.toLowerCase()].filter((letter) => letter.trim());
  const letters = [...title.toLowerCase()].slice(0, LONGEST);
  let ways = [{ score: 0, places: [] }]; // partial matches, by their last place
  for (const letter of wanted) {
    const next = [];
    letters.forEach((one, at) => {
      if (one !== letter) return;
      const own = at === 0 || !LETTER.test(letters[at - 1]) ? 7 : 1;
      let best = null;
      for (const { score, places } of ways) {
        const last = places.length ? places[places.length - 1] : -1;
        if (last >= at) continue;
        const whole = score + own + (places.length && last === at - 1 ? 8 : -0.1 * (at - last - 1));
        if (!best || whole > best.score) best = { score: whole, places: [...places, at] };
      }
      if (best) next.push(best);
    });
    ways = next;
  }
  return ways.reduce((best, way) => (best && best.score >= way.score ? best : way), null);
};

// Matches one of the other words of a command from its start on: less than the same letters in a title.
const matchOther = (query, words = "") => {
  const wanted = query.trim().toLowerCase();
  const found = wanted && ` ${words.toLowerCase()}`.includes(` ${wanted}`);
  return found ? { score: 5 * wanted.length, places: [] } : null;
};
const better = (one, other) => (one && other ? (other.score > one.score ? other : one) : one ?? other);

// Returns the commands that match, best first; equals stay in their order.
export const search = (query, commands) =>
  commands
    .map((command) => ({ command, found: better(match(query, command.title), matchOther(query, command.also)) }))
    .filter(({ found }) => found)
    .sort((one, other) => other.found.score - one.found.score);

// Returns [heading, rows] for commands that nobody has searched: those of `recent` titles first, then by kind.
export const grouped = (rows, recent) => {
  const used = recent.map((title) => rows.find(({ command }) => command.title === title && !command.late)).filter(Boolean);
  const groups = new Map(used.length ? [["Recent", used]] : []);
  for (const row of rows.filter((one) => !used.includes(one))) {
    const name = row.command.kind || "Undo";
    groups.set(name, [...(groups.get(name) ?? []), row]);
  }
  return [...groups];
};

const readRecent = () => {
  try {
    const titles = JSON.parse(localStorage.getItem(KEY));
    return Array.isArray(titles) ? titles : [];
  } catch {
    return []; // not allowed, or another hand's text
  }
};
const noteRecent = ({ title, late }) => {
  if (late) return;
  const titles = [title, ...readRecent().filter((one) => one !== title)].slice(0, RECENT);
  try {
    localStorage.setItem(KEY, JSON.stringify(titles));
  } catch { /* full, or not allowed */ }
};

const draw = ({ command, found }, at, isSearched) => {
  const row = Object.assign(document.createElement("div"), { id: `command-${at}`, role: "option", className: "command" });
  const title = document.createElement("span");
  [...command.title].forEach((letter, place) => {
    if (!found.places.includes(place)) return title.append(letter);
    return title.append(Object.assign(document.createElement("mark"), { textContent: letter }));
  });
  row.append(title);
  const note = command.note ?? (isSearched ? command.kind : "");
  if (note) row.append(Object.assign(document.createElement("span"), { className: "count", textContent: note }));
  if (command.keys) row.append(Object.assign(document.createElement("kbd"), { textContent: keysText(command.keys) }));
  return row;
};
const drawGroup = (name, rows) => {
  const group = Object.assign(document.createElement("div"), { role: "group", ariaLabel: name });
  const heading = Object.assign(document.createElement("p"), { className: "label", textContent: name, ariaHidden: "true" });
  group.append(heading, ...rows);
  return group;
};

// `ask()` asks Python for the commands that are possible now, and returns whether it will answer; `known()` gives
// those that it has named so far, so that the palette opens at once even while Python is busy; `perform(command)`
// does a command that has no function `run` of its own. Returns `list`, to be called after Python's answer.
export const watchPalette = (ask, known, perform) => {
  const [dialog, field, box, count] = ["palette", "palette-field", "palette-list", "palette-count"].map(find);
  let commands = [];
  let rows = [];
  let now = 0;
  let answer = null; // a timer while Python's answer is awaited
  let chosen = false; // Enter was pressed before it came

  const point = (at) => {
    now = Math.max(0, Math.min(at, rows.length - 1));
    const drawn = [...box.querySelectorAll(".command")];
    drawn.forEach((row, place) => { row.ariaSelected = String(place === now); });
    if (rows.length) field.setAttribute("aria-activedescendant", `command-${now}`);
    else field.removeAttribute("aria-activedescendant");
    if (now === 0) box.scrollTop = 0; // with its heading
    else drawn[now]?.scrollIntoView({ block: "nearest" });
  };
  const show = () => {
    const isSearched = field.value.trim() !== "";
    const all = search(field.value, commands);
    const groups = isSearched ? [] : grouped(all, readRecent());
    rows = isSearched ? all.slice(0, SHOWN) : groups.flatMap(([, members]) => members);
    const drawn = rows.map((row, at) => draw(row, at, isSearched));
    box.replaceChildren(...(isSearched ? drawn : groups.map(([name, members]) => drawGroup(name, drawn.splice(0, members.length)))));
    count.textContent = all.length === 1 ? "1 command" : `${all.length || "No"} commands`;
    point(0);
  };
  const open = () => {
    if (dialog.open) return;
    commands = known();
    field.value = "";
    dialog.showModal();
    show();
    chosen = false;
    answer = ask() ? setTimeout(settle, PATIENCE) : null;
  };
  // Python has answered, or takes too long: what is known counts.
  const settle = () => {
    clearTimeout(answer);
    answer = null;
    if (chosen && dialog.open) choose(now);
    chosen = false;
  };
  const list = () => {
    if (dialog.open) {
      const pointed = now ? rows[now].command.title : null; // someone has moved there
      commands = known();
      show();
      const at = rows.findIndex((row) => row.command.title === pointed);
      if (at > 0) point(at);
    }
    settle();
  };
  const choose = (at) => {
    const row = rows[at];
    if (!row) return;
    dialog.close(); // returns the focus before the command may move it
    noteRecent(row.command);
    if (row.command.run) row.command.run();
    else perform(row.command);
  };

  const shortcut = find("palette-button").querySelector("kbd");
  shortcut.textContent = keysText(shortcut.textContent);
  find("palette-button").addEventListener("click", open);
  field.addEventListener("input", (event) => {
    event.stopPropagation();
    show();
  });
  field.addEventListener("keydown", (event) => {
    const steps = { ArrowDown: 1, ArrowUp: -1, PageDown: 8, PageUp: -8 }[event.key];
    if (steps) {
      const next = now + steps;
      // Only single steps wrap around.
      point(Math.abs(steps) === 1 ? (next + rows.length) % rows.length : next);
    } else if (event.key === "Enter" && !event.isComposing) {
      if (answer) chosen = true; // the row may not be there yet
      else choose(now);
    }
    else return;
    event.preventDefault();
  });
  const placeOf = (event) => [...box.querySelectorAll(".command")].indexOf(event.target.closest(".command"));
  // Moving the mouse selects a row; rows that scroll below it do not.
  box.addEventListener("pointermove", (event) => {
    const at = placeOf(event);
    if (at >= 0 && at !== now && (event.movementX || event.movementY)) point(at);
  });
  box.addEventListener("click", (event) => choose(placeOf(event)));
  dialog.addEventListener("click", (event) => { if (event.target === dialog) dialog.close(); }); // a click outside
  addEventListener("keydown", (event) => {
    if (event.key.toLowerCase() !== "k" || !(event.ctrlKey || event.metaKey) || event.altKey || event.shiftKey) return;
    event.preventDefault();
    if (dialog.open) dialog.close();
    else open();
  });
  return { list };
};
