// The parts of a drawing as SVG markup, for the page and for files. Names come from untrusted files, so every
// text is escaped.

const CHARACTER = { title: 7.9, text: 6.7, label: 7.3 }; // width in pixels, in the fonts of graph.css
const NOTE = 9; // characters that a time needs beside the title
const HEIGHT = 42;
const NARROWEST = 84;
const WIDEST = 330;
const ENDS = { input: 1, output: 1 };

const ESCAPES = { "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;" };
export const escape = (text) => text.replace(/[&<>"]/g, (one) => ESCAPES[one]);
const cut = (text, pixels, each) => {
  const most = Math.floor(pixels / each);
  return text.length > most ? `${text.slice(0, most - 1)}…` : text;
};
const round = (number) => Math.round(number * 10) / 10;

export const sizeOf = (box) => {
  const title = (box.title.length + (box.kind in ENDS ? 0 : NOTE)) * CHARACTER.title;
  const width = 26 + Math.max(title, box.text.length * CHARACTER.text);
  return [Math.min(WIDEST, Math.max(NARROWEST, width)), HEIGHT];
};

// Returns the description of a box, for screen readers and the line below the drawing.
export const nameOf = (box, [, note] = []) =>
  [`${box.node ?? box.kind} ${box.title}`, box.text, note].filter(Boolean).join(", ");

export const boxMarkup = (box, [x, y], [width, height], [tint, note, shares], { id, classes }) => {
  const [left, top] = [round(x - width / 2), round(y - height / 2)];
  let start = left + 4;
  const bar = (shares ?? []).map(([one, share]) => {
    const part = `<rect class="${one} graph-bar-part" x="${round(start)}" y="${top + height - 7}" width="${round(share * (width - 8))}" height="4"/>`;
    start += share * (width - 8);
    return part;
  });
  const roundness = box.kind in ENDS ? height / 2 : 8;
  const space = width - 20 - (note ? NOTE * CHARACTER.text : 0);
  return `<g class="graph-drawn graph-drawn-${box.kind} ${tint} ${classes}"${id ? ` id="${id}" role="img" aria-label="${escape(nameOf(box, [tint, note]))}"` : ""}>`
    + `<rect class="graph-drawn-body" x="${left}" y="${top}" width="${round(width)}" height="${height}" rx="${roundness}"/>`
    + (box.kind === "call" ? `<rect class="graph-drawn-edge" x="${left}" y="${top + 7}" width="5" height="${height - 14}"/>` : "")
    + bar.join("")
    + `<text class="graph-drawn-title" x="${left + 12}" y="${top + 17}">${escape(cut(box.kind === "fold" ? `▸ ${box.title}` : box.title, space, CHARACTER.title))}</text>`
    + `<text class="graph-drawn-text" x="${left + 12}" y="${top + (shares ? 31 : 33)}">${escape(cut(box.text, width - 18, CHARACTER.text))}</text>`
    + (note ? `<text class="graph-drawn-note" text-anchor="end" x="${round(left + width - 8)}" y="${top + 17}">${escape(note)}</text>` : "")
    + "</g>";
};

// Returns a smooth line through an edge's points.
export const curve = (points) => {
  let path = `M${round(points[0])} ${round(points[1])}`;
  for (let at = 2; at + 3 < points.length; at += 2) {
    const [x, y] = [points[at], points[at + 1]];
    path += `Q${round(x)} ${round(y)} ${round((x + points[at + 2]) / 2)} ${round((y + points[at + 3]) / 2)}`;
  }
  return `${path}L${round(points.at(-2))} ${round(points.at(-1))}`;
};

export const arrow = (x, y) => `M${round(x)} ${round(y)}l-3.5 -7h7z`;

// Returns the stubs of a long edge, which is drawn only while one of its ends is selected.
export const stub = (x, y, way) => `M${round(x)} ${round(y)}v${way * 11}m-4 ${way * 2}h8`;

export const farCurve = (x, y, toX, toY) => {
  const bend = Math.min(160, Math.abs(toY - y) / 2);
  return `M${round(x)} ${round(y)}C${round(x)} ${round(y + bend)} ${round(toX)} ${round(toY - bend)} ${round(toX)} ${round(toY)}`;
};

export const LABEL_HEIGHT = 20;
export const labelWidth = ({ title }) => 18 + (title.length + 2) * CHARACTER.label;

export const groupMarkup = ({ fold }, [left, top, right, bottom]) =>
  `<rect class="graph-drawn-frame" data-fold="${escape(fold)}" x="${round(left)}" y="${round(top)}" width="${round(right - left)}" height="${round(bottom - top)}" rx="12"/>`;

// The label of an opened fold, above all boxes; `at` is its left upper corner.
export const labelMarkup = (group, [x, y]) =>
  `<g class="graph-drawn-group" data-fold="${escape(group.fold)}">`
  + `<rect x="${round(x)}" y="${round(y)}" width="${round(labelWidth(group))}" height="${LABEL_HEIGHT}" rx="6"/>`
  + `<text x="${round(x + 8)}" y="${round(y + 14)}">▾ ${escape(group.title)}</text></g>`;
