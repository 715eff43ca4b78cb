// The whole drawing as an SVG file, with colours and fonts inside, since it has no style sheet.

import { groupMarkup, labelMarkup } from "./shapes.js";
import { collect, turn } from "./slices.js";

const STYLED = ["fill", "fill-opacity", "stroke", "stroke-width", "stroke-dasharray", "font-family", "font-size", "font-weight"];
const SPACE = 16;
const ROOT = "graph-measured";

const classesOf = (element) => [...element.classList].map((name) => `.${name}`).join("");

// Returns one rule per kind of element, with its computed styles.
const rulesOf = (root) => {
  const rules = new Map();
  for (const element of root.querySelectorAll("rect, path, text")) {
    const selector = `${classesOf(element.parentElement)} ${element.localName}${classesOf(element)}`;
    if (rules.has(selector)) continue;
    const style = getComputedStyle(element);
    rules.set(selector, STYLED.map((name) => `${name}:${style.getPropertyValue(name)}`).join(";"));
  }
  return [...rules].map(([selector, text]) => `${selector}{${text}}`).join("\n");
};

// Returns one box of each kind and colour: styling all would take long.
const samples = (scene, paint, marks) => {
  const kinds = new Map();
  scene.boxes.forEach((box, at) => {
    const tints = [paint[at][0], ...(paint[at][2] ?? []).map(([tint]) => tint)];
    const key = [box.kind, ...tints, Boolean(paint[at][1])].join(" ");
    if (!kinds.has(key)) kinds.set(key, scene.box(at, paint, marks, ""));
  });
  const lines = ["line", "arrow", "far"].map((one) => `<path class="graph-drawn-${one}"/>`);
  return [...kinds.values(), ...lines, groupMarkup({ fold: "" }, [0, 0, 1, 1]), labelMarkup({ title: "", fold: "" }, [0, 0])].join("");
};

// Returns the file's text in parts.
const svgParts = async (host, scene, paint) => {
  const marks = { chosen: null, current: null, found: new Set(), searching: false };
  const all = [-SPACE, -SPACE, scene.width + SPACE, scene.height + SPACE];
  const lines = await collect(scene.linePieces(all, marks));
  const boxes = await collect(scene.boxPieces(scene.boxes.map((_, at) => at), paint, marks, ""));
  await turn();
  const [width, height] = [scene.width + 4 * SPACE, scene.height + 4 * SPACE];
  const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  svg.setAttribute("class", ROOT);
  svg.innerHTML = samples(scene, paint, marks);
  host.append(svg); // styles are computed only in the page
  const rules = rulesOf(svg);
  const back = getComputedStyle(host.closest(".card") ?? document.body).backgroundColor;
  svg.remove();
  const head = `<svg xmlns="http://www.w3.org/2000/svg" class="${ROOT}" viewBox="${-2 * SPACE} ${-2 * SPACE} ${width} ${height}" width="${width}" height="${height}">\n`
    + `<style>\n${rules.replaceAll("&", "&amp;").replaceAll("<", "&lt;")}\n</style>\n<rect x="${-2 * SPACE}" y="${-2 * SPACE}" width="${width}" height="${height}" fill="${back}"/>\n`;
  return [head, ...lines, ...boxes, scene.labelMarkup(), "\n</svg>\n"];
};

export const saveSvg = async (host, scene, paint, name) => {
  const url = URL.createObjectURL(new Blob(await svgParts(host, scene, paint), { type: "image/svg+xml" }));
  Object.assign(document.createElement("a"), { href: url, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(url), 60_000);
};
