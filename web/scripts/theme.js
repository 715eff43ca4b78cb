// The theme: the system's, light or dark, kept from visit to visit. A site that frames the page gives its own
// in the address.

const KEY = "webpte theme";
const root = document.documentElement;

const read = () => {
  const given = new URLSearchParams(location.search).get("theme");
  if (root.hasAttribute("data-embed") && ["light", "dark"].includes(given)) return given;
  try {
    return localStorage.getItem(KEY) ?? "";
  } catch {
    return ""; // not allowed: then every visit starts with the system's
  }
};

const apply = (theme) => {
  if (theme) root.dataset.theme = theme;
  else delete root.dataset.theme;
};

apply(read());

const choose = (theme) => {
  apply(theme);
  try {
    if (theme) localStorage.setItem(KEY, theme);
    else localStorage.removeItem(KEY);
  } catch { /* not allowed: then it is not kept */ }
};

export const watchTheme = (select) => {
  select.value = read();
  select.addEventListener("change", () => choose(select.value));
};

// Rows of the palette: on phones there is no room for the field.
export const themeCommands = (select) =>
  [...select.options].map(({ value, textContent }) => ({
    title: `Theme: ${textContent.toLowerCase()}`,
    kind: "Theme",
    also: "appearance colour color mode night",
    note: value === select.value ? "Chosen" : "",
    run: () => choose(select.value = value),
  }));
