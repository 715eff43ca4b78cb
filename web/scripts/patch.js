// Patches a section of the page to match the markup that Python sends. Focus, scroll position, opened
// sections and typed text stay.

import { Idiomorph } from "../runtime/idiomorph/idiomorph.esm.js";

const FIELDS = "input:not([type=file]), textarea, select";

// Elements are matched by ids; controls without one get an id from their act. Otherwise the focus could move
// to another button.
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

// Returns the value of a field in the markup, not what was typed or chosen since.
const markedValue = (field) => {
  if (field.localName === "select") return [...field.options].map((one) => [one.value, one.defaultSelected]).join();
  return ["checkbox", "radio"].includes(field.type) ? field.defaultChecked : field.defaultValue;
};

// A field with an act sends every change, so Python's value wins, unless the user is typing. A field without
// one keeps what was typed, until the markup has a new value.
const keepsValue = (old, now) =>
  old.dataset.act ? old === document.activeElement && old.localName !== "select"
    : markedValue(old) === markedValue(now);

// Markup has no styles, which the page's policy forbids: the width of a box whose height is limited follows
// from the shape (width / height) of what is in it.
const setShapes = (section) => {
  for (const one of section.querySelectorAll("[data-shape]")) one.style.setProperty("--shape", one.dataset.shape);
};

export const patch = (section, markup) => {
  if (section.firstChild && markup) morph(section, markup);
  else section.innerHTML = markup;
  setShapes(section);
};

const morph = (section, markup) => {
  const template = document.createElement("template");
  template.innerHTML = markup;
  nameControls(section, section.id);
  nameControls(template.content, section.id);
  const focused = section.contains(document.activeElement) ? document.activeElement : null;
  const sections = new Set(section.querySelectorAll("details")); // new ones open as the markup says
  const fields = new Set(section.querySelectorAll(FIELDS));
  const kept = new Set();
  Idiomorph.morph(section, template.content, {
    morphStyle: "innerHTML",
    callbacks: {
      beforeNodeMorphed: (old, now) => {
        // The content belongs to a script: a canvas, a drawing.
        if (old.dataset?.keep !== undefined && now.dataset?.keep !== undefined) return false;
        if (fields.has(old) && keepsValue(old, now)) {
          kept.add(old);
          for (const option of old.options ?? []) kept.add(option);
        }
        return true;
      },
      beforeAttributeUpdated: (name, element) => {
        if (name === "open") return !sections.has(element);
        if (name === "style") return false; // set by a script: Python sends none
        return !(kept.has(element) && ["value", "checked", "selected"].includes(name));
      },
    },
  });
  if (focused && !section.contains(document.activeElement)) {
    // No scrolling: the user has just pressed a control here.
    section.querySelector("button, select, input, textarea")?.focus({ preventScroll: true });
  }
};
