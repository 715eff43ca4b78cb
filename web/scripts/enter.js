// Enter in a text area with `data-enter` submits its form, as soon as it is on the page; Shift+Enter breaks the line.
addEventListener("keydown", (event) => {
  // While an input method composes, Enter accepts its proposal.
  if (event.key !== "Enter" || event.shiftKey || event.isComposing || !event.target.matches?.("textarea[data-enter]")) return;
  event.preventDefault();
  event.target.form?.requestSubmit();
});
