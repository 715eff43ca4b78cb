// Copies a text to the clipboard, also where the browser has no clipboard API or does not allow it.

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

// Returns whether it was copied: browsers allow it soon after a click or a key.
export const copyText = async (text) => {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    return copySelected(text);
  }
};
