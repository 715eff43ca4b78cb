// Draws results, which task/results.js describes: one function for each kind.

const SHOWN_NUMBERS = 24;
const SVG = "http://www.w3.org/2000/svg";

export function make(name, properties = {}, ...children) {
    const element = Object.assign(document.createElement(name), properties);
    element.append(...children);
    return element;
}

function shape(name, attributes, ...children) {
    const element = document.createElementNS(SVG, name);
    for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
    element.append(...children);
    return element;
}

const percent = (share) => `${(100 * share).toFixed(1)} %`;

// A row of a list, with a bar as long as its score is high. `number` is the score as a text.
function row({ at, label, score }, number) {
    const inside = make("span");
    inside.style.width = `${100 * Math.min(Math.max(score, 0), 1)}%`;
    return make("li", {},
        ...(at === undefined ? [] : [make("code", { textContent: `${at.toFixed(2)} s` })]),
        make("span", { className: "label-name", textContent: label }),
        make("span", { className: "number", textContent: number }), make("span", { className: "bar" }, inside));
}

function scores({ scores: rows }) {
    const number = (score) => (score >= 0 && score <= 1 ? percent(score) : score.toPrecision(5));
    return make("ol", { className: "largest answered" }, ...rows.map((one) => row(one, number(one.score))));
}

// The other texts, the most similar to the first text at the top.
function similarities({ texts: [first, ...others], similarities: [[, ...found]] }) {
    const rows = others.map((label, i) => ({ label, score: found[i] })).sort((a, b) => b.score - a.score);
    return make("div", { className: "results" }, make("p", { className: "said", textContent: first }),
        make("ol", { className: "largest" }, ...rows.map((one) => row(one, one.score.toFixed(2)))),
        make("p", { className: "note", textContent: "1: as near as the same text, 0: unrelated." }));
}

export function canvasOf({ width, height, data }) {
    const canvas = make("canvas", { width, height });
    canvas.getContext("2d").putImageData(new ImageData(new Uint8ClampedArray(data), width, height), 0, 0);
    return canvas;
}

// The picture of an input under a canvas or boxes, which cover it.
const layered = (under, over) => make("div", { className: "layers" }, ...(under ? [under] : []), over);

function picture({ picture: shown, over, legend = [] }, { input }) {
    const canvas = canvasOf(shown);
    canvas.setAttribute("role", "img");
    canvas.setAttribute("aria-label", legend.map(({ label }) => label).join(", ") || "The result");
    const named = legend.map(({ label, colour, share }) => {
        const mark = make("span", { className: "mark" });
        mark.style.background = colour;
        return make("li", {}, mark, `${label} ${percent(share)}`);
    });
    const list = make("ul", { className: "legend" }, ...named);
    return make("div", {}, over ? layered(input?.(), canvas) : canvas, ...(named.length ? [list] : []));
}

function boxes({ width, height, boxes: found }, { input }) {
    const thick = Math.max(width, height) / 250;
    const told = `${found.length} ${found.length === 1 ? "box" : "boxes"}`;
    const drawn = shape("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": told, class: "boxes" });
    for (const { label, score, box: { xmin, ymin, xmax, ymax } } of found) {
        const text = shape("text", { x: xmin + thick, y: Math.max(ymin - 1.5 * thick, 5 * thick), "font-size": 6 * thick });
        text.textContent = `${label} ${score.toFixed(2)}`;
        const rect = shape("rect", { x: xmin, y: ymin, width: Math.max(xmax - xmin, 0), height: Math.max(ymax - ymin, 0), fill: "none", "stroke-width": thick });
        drawn.append(shape("g", { class: "box" }, rect, text));
    }
    return make("div", {}, layered(input?.(), drawn), make("p", { className: "note", textContent: told }));
}

const text = ({ text: said }) => make("p", { className: "said", textContent: said });

function curve({ values }) {
    const most = values.reduce((a, b) => Math.max(a, Math.abs(b)), 1e-30);
    const points = Array.from(values, (value, i) => `${((i + 0.5) / values.length) * 100},${50 - 48 * (value / most)}`).join(" ");
    const line = shape("polyline", { points, fill: "none", class: "line line-0", "vector-effect": "non-scaling-stroke" });
    const drawn = shape("svg", { viewBox: "0 0 100 100", preserveAspectRatio: "none", class: "chart", role: "img", "aria-label": `${values.length} numbers` });
    drawn.append(line);
    return make("div", {}, drawn, make("p", { className: "note", textContent: `${values.length} numbers, up to ${most.toPrecision(4)}` }));
}

function numbers({ dtype, shape: dims, values }) {
    const shown = Array.from(values).slice(0, SHOWN_NUMBERS).map((one) => (typeof one === "number" ? Number(one.toPrecision(6)) : one));
    const more = values.length > SHOWN_NUMBERS ? ", …" : "";
    return make("p", { className: "said", textContent: `${dtype} [${dims.join(", ")}]: ${shown.join(", ")}${more}` });
}

const DRAWN = { scores, picture, boxes, text, curve, similarities, numbers };

// Returns an element that shows results. `input` makes an element with the input, for results that are drawn over it.
export function drawResults(results, { input } = {}) {
    return make("div", { className: "results" }, ...results.map((one) => {
        const title = one.title && results.length > 1 ? [make("figcaption", { textContent: one.title })] : [];
        return make("figure", {}, ...title, DRAWN[one.kind](one, { input }));
    }));
}
