// Text: copying it, and sending what was typed.

// Copies without the clipboard API, which some browsers lack or do not allow.
const copySelected = (text) => {
  const field = Object.assign(document.createElement("textarea"), { value: text, readOnly: true });
  field.className = "copied";
  const focused = document.activeElement;
  document.body.append(field);
  field.select();
  const done = document.execCommand("copy");
  field.remove();
  focused?.focus({ preventScroll: true });
  return done;
};

// Copies a text to the clipboard; returns whether it was copied: browsers allow it soon after a click or a key.
export const copyText = async (text) => {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    return copySelected(text);
  }
};

// Enter in a text area with `data-enter` submits its form, as soon as it is on the page; Shift+Enter breaks the line.
export const watchEnter = () => addEventListener("keydown", (event) => {
  // While an input method composes, Enter accepts its proposal.
  if (event.key !== "Enter" || event.shiftKey || event.isComposing || !event.target.matches?.("textarea[data-enter]")) return;
  event.preventDefault();
  event.target.form?.requestSubmit();
});
