// Makes a section of the page like the markup that Python sends, by changing what differs: what
// people have there (focus, scroll, opened sections, what they type) stays.

import { Idiomorph } from "../runtime/idiomorph/idiomorph.esm.js";

const FIELDS = "input:not([type=file]), textarea, select";

// Elements are told apart by their ids; controls that have none get one by what they do. Otherwise
// the focused button could become the one that takes its place.
const PREFIX = "key:";
const nameControls = (root, scope) => {
  const count = new Map();
  for (const one of root.querySelectorAll("[data-act], [name]")) {
    if (one.getAttribute("id") && !one.getAttribute("id").startsWith(PREFIX)) continue;
    const what = [scope, one.localName, one.getAttribute("name"), JSON.stringify(one.dataset)].join(" ");
    count.set(what, (count.get(what) ?? 0) + 1);
    one.setAttribute("id", `${PREFIX}${what} ${count.get(what)}`);
  }
};

// What the markup says that a field holds, whatever has been typed or chosen since.
const markedValue = (field) => {
  if (field.localName === "select") return [...field.options].map((one) => [one.value, one.defaultSelected]).join();
  return ["checkbox", "radio"].includes(field.type) ? field.defaultChecked : field.defaultValue;
};

// A field with an act tells Python whatever happens to it, so Python knows best, unless someone is
// typing. A field without holds what was typed, until the markup says something new.
const keepsValue = (old, now) =>
  old.dataset.act ? old === document.activeElement && old.localName !== "select"
    : markedValue(old) === markedValue(now);

export const patch = (section, markup) => {
  if (!section.firstChild || !markup) {
    section.innerHTML = markup;
    return;
  }
  const template = document.createElement("template");
  template.innerHTML = markup;
  nameControls(section, section.id);
  nameControls(template.content, section.id);
  const focused = section.contains(document.activeElement) ? document.activeElement : null;
  const sections = new Set(section.querySelectorAll("details")); // new ones open as they are told
  const fields = new Set(section.querySelectorAll(FIELDS));
  const kept = new Set();
  Idiomorph.morph(section, template.content, {
    morphStyle: "innerHTML",
    callbacks: {
      beforeNodeMorphed: (old, now) => {
        // What is in such an element is its script's: a canvas, a drawing.
        if (old.dataset?.keep !== undefined && now.dataset?.keep !== undefined) return false;
        if (fields.has(old) && keepsValue(old, now)) {
          kept.add(old);
          for (const option of old.options ?? []) kept.add(option);
        }
        return true;
      },
      beforeAttributeUpdated: (name, element) => {
        if (name === "open") return !sections.has(element);
        return !(kept.has(element) && ["value", "checked", "selected"].includes(name));
      },
    },
  });
  if (focused && !section.contains(document.activeElement)) {
    // Whoever has pressed it sees where it was: nothing is to be scrolled to.
    section.querySelector("button, select, input, textarea")?.focus({ preventScroll: true });
  }
};
