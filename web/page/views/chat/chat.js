// The chat's part of the main thread: the log follows its end, and the token under the pointer is reported.
// A picture in full size is a dialog.

const KEYS = { ArrowRight: 1, ArrowLeft: -1, Home: -Infinity, End: Infinity };
const NEAR = 40; // pixels from the end within which the log follows new text
const watched = new WeakSet();

const one = (panel, id) => panel.querySelector(`#${id}`);

// Follows new text, unless the user has scrolled up.
const followEnd = (panel) => {
  let follows = true;
  panel.addEventListener("scroll", ({ target }) => {
    if (target.id === "chat-log") follows = target.scrollHeight - target.scrollTop - target.clientHeight < NEAR;
  }, true);
  const follow = (log) => { if (log && follows) log.scrollTop = log.scrollHeight; };
  new MutationObserver((changes) => {
    const log = one(panel, "chat-log");
    if (changes.some(({ target }) => log?.contains(target))) follow(log);
  }).observe(panel, { childList: true, subtree: true, characterData: true });
  new ResizeObserver(() => follow(one(panel, "chat-log"))).observe(panel); // lines may break differently
};

// Places the card below or above its token, within the window.
const placeCard = (card, token) => {
  card.hidden = false;
  const at = token.getBoundingClientRect();
  const size = card.getBoundingClientRect();
  const below = at.bottom + 6 + size.height < innerHeight || at.top < size.height + 6;
  card.style.left = `${Math.max(8, Math.min(at.left, innerWidth - size.width - 8))}px`;
  card.style.top = `${below ? at.bottom + 6 : at.top - size.height - 6}px`;
};

const explainTokens = (panel, tell) => {
  let shown = null;
  const hide = () => {
    shown = null;
    const card = one(panel, "chat-token");
    if (card) card.hidden = true;
    card?.replaceChildren(); // so that an equal card counts as a change
  };
  const look = ({ target }) => {
    const token = target.closest?.(".token");
    if (token === shown || (!token && target.closest?.("#chat-token"))) return;
    hide();
    if (!token) return;
    shown = token;
    tell("look", { line: token.parentElement.dataset.line, at: token.dataset.at });
  };
  panel.addEventListener("pointerover", look);
  panel.addEventListener("focusin", look);
  panel.addEventListener("pointerleave", hide);
  panel.addEventListener("focusout", hide);
  panel.addEventListener("scroll", hide, true);
  addEventListener("scroll", hide);
  // Places the card once Python has drawn it.
  new MutationObserver((changes) => {
    const card = one(panel, "chat-token");
    if (!shown?.isConnected || !card?.firstChild) return;
    if (changes.some(({ target }) => card.contains(target))) placeCard(card, shown);
  }).observe(panel, { childList: true, subtree: true, characterData: true });
  panel.addEventListener("keydown", (event) => {
    if (event.key === "Escape") hide();
    const token = event.target.closest(".token");
    const step = KEYS[event.key];
    if (!token || step === undefined) return;
    event.preventDefault();
    const tokens = [...token.parentElement.querySelectorAll(".token")];
    const next = tokens[Math.max(0, Math.min(tokens.length - 1, tokens.indexOf(token) + step))];
    token.tabIndex = -1;
    next.tabIndex = 0;
    next.focus();
  });
};

// `focus` is the id of the field that gets the focus, `enlarge` that of the dialog with a picture.
export const show = (panel, { focus, enlarge }, tell) => {
  if (!watched.has(panel)) {
    watched.add(panel);
    followEnd(panel);
    const log = one(panel, "chat-log");
    if (log) log.scrollTop = log.scrollHeight; // a restored conversation may be long
    explainTokens(panel, tell);
    panel.addEventListener("click", ({ target }) => target.closest("dialog")?.close()); // a click anywhere closes it
  }
  if (enlarge) one(panel, enlarge)?.showModal();
  // On a touch screen the composer's keyboard would cover half of the conversation.
  if (focus && (focus !== "chat-text" || !matchMedia("(pointer: coarse)").matches)) one(panel, focus)?.focus();
};
