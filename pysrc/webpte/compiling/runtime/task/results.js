// Outputs of a program as results: plain data, of few kinds, which view/results.js draws.
//
//     scores   { scores: [{ label, score }] }: the best first; of a sound [{ at, label, score }], the earliest first
//     picture  { picture: { width, height, data } }: four bytes for each pixel, as ImageData; with `over` it belongs on
//              the input, and `legend` has [{ number, label, colour, share }]; `values` has the number of each pixel
//     boxes    { width, height, boxes: [{ label, score, box: { xmin, ymin, xmax, ymax } }] }
//     text     { text }
//     curve    { values }
//     similarities   { texts, vectors, similarities }, of ../sentences.js
//     numbers  { dtype, shape, values }: outputs of no known meaning

import { checkFinite } from "./checks.js";
import { interpolate, placeOf, scaledSize } from "./resample.js";
import { FUNCTIONS, largest, scores, sigmoid } from "./scores.js";

// A colour for each label, apart from its neighbours'.
export function colourOf(label) {
    const at = (label * 0.61803398875) % 1;
    const side = (shift) => Math.round(255 * (0.25 + 0.7 * Math.min(Math.max(Math.abs((((at + shift) % 1) * 6) - 3) - 1, 0), 1)));
    return [side(0), side(2 / 3), side(1 / 3)];
}

const css = (colour) => `rgb(${colour.join(" ")})`;

// ---- by the kind of an output in the description: makes a result of the tensors it takes

// The best label of each frame of a sound; `at` is the second at which a run of frames with the same label begins.
export function heard(described, parts, { count, seconds }) {
    const rows = parts.flatMap(({ data, shape }) => {
        const size = shape.at(-1);
        return Array.from({ length: data.length / size }, (_, row) => data.subarray(row * size, (row + 1) * size));
    });
    const found = [];
    rows.slice(0, count).forEach((row, i) => {
        const { scores: [best] } = scores(described, [{ data: row, shape: [row.length] }], { topK: 1 });
        const last = found.at(-1);
        if (last?.label === best.label) last.score = Math.max(last.score, best.score);
        else found.push({ ...best, at: i * seconds });
    });
    return { kind: "scores", scores: found };
}

function labels({ labels: names, one }, [{ data, shape }], { picture }) {
    const [count, rows, columns] = shape.slice(-3);
    const { width, height } = picture;
    const best = new Uint16Array(width * height);
    const most = new Float32Array(width * height).fill(one ? 0 : -Infinity);
    for (let label = 0; label < count; label++) {
        const plane = interpolate(data.subarray(label * rows * columns, (label + 1) * rows * columns), [rows, columns], [height, width]);
        plane.forEach((value, i) => {
            if (value > most[i]) [most[i], best[i]] = [value, label + Number(Boolean(one))];
        });
    }
    const counts = new Map();
    const pixels = new Uint8ClampedArray(4 * width * height);
    best.forEach((label, i) => {
        counts.set(label, (counts.get(label) ?? 0) + 1);
        pixels.set([...colourOf(label), 160], 4 * i);
    });
    const legend = [...counts].sort((a, b) => b[1] - a[1]).map(([label, pixelsOfIt]) => (
        { number: label, label: names[label] ?? `LABEL_${label}`, colour: css(colourOf(label)), share: pixelsOfIt / best.length }
    ));
    return { kind: "picture", picture: { width, height, data: pixels }, over: true, legend, values: best };
}

function depth(_, [{ data, shape }], { picture }) {
    const { width, height } = picture;
    const values = interpolate(data, shape.slice(-2), [height, width], "bicubic");
    const [low, high] = [-largest(values.map((value) => -value)), largest(values)];
    const pixels = new Uint8ClampedArray(4 * width * height);
    values.forEach((value, i) => {
        const level = high > low ? Math.trunc(((value - low) / (high - low)) * 255) : 0;
        pixels.set([level, level, level, 255], 4 * i);
    });
    return { kind: "picture", picture: { width, height, data: pixels }, values };
}

function cutout(_, [{ data, shape }], { picture }) {
    const { width, height } = picture;
    const shares = interpolate(data.map(sigmoid), shape.slice(-2), [height, width]);
    const pixels = new Uint8ClampedArray(4 * width * height);
    shares.forEach((share, i) => pixels.set([...picture.data.subarray(3 * i, 3 * i + 3), share * 255], 4 * i));
    return { kind: "picture", picture: { width, height, data: pixels } };
}

// A picture in planes: each value times `scale`, plus `offset`, is a byte. `cut`: the part that is no padding.
export function painted({ scale = [255], offset = [0] }, [{ data, shape }], { cut }) {
    const [planes, rows, columns] = shape.slice(-3);
    const [height, width] = cut ?? [rows, columns];
    const pixels = new Uint8ClampedArray(4 * width * height);
    for (let plane = 0; plane < 3; plane++) {
        const from = Math.min(plane, planes - 1);
        const [by, plus] = [scale[scale.length === 1 ? 0 : plane], offset[offset.length === 1 ? 0 : plane]];
        for (let y = 0; y < height; y++) {
            for (let x = 0; x < width; x++) pixels[4 * (y * width + x) + plane] = data[(from * rows + y) * columns + x] * by + plus;
        }
    }
    for (let i = 3; i < pixels.length; i += 4) pixels[i] = 255;
    return { kind: "picture", picture: { width, height, data: pixels } };
}

const box = ([xmin, ymin, xmax, ymax]) => ({ xmin: Math.trunc(xmin), ymin: Math.trunc(ymin), xmax: Math.trunc(xmax), ymax: Math.trunc(ymax) });

function overlap(a, b) {
    const side = (low) => Math.max(Math.min(a[low + 2], b[low + 2]) - Math.max(a[low], b[low]), 0);
    const common = side(0) * side(1);
    const area = (one) => (one[2] - one[0]) * (one[3] - one[1]);
    const together = area(a) + area(b) - common;
    return together > 0 ? common / together : 0;
}

// Labels and boxes of queries, as DETR and models like it return them.
function queries({ labels: names, function: named, most }, [logits, places], { picture, threshold = 0.5 }) {
    const { width, height } = picture;
    const [count, classes] = logits.shape.slice(-2);
    const rows = [];
    for (let row = 0; row < count; row++) {
        const found = FUNCTIONS[named](logits.data.subarray(row * classes, (row + 1) * classes));
        const kept = named === "softmax" ? found.slice(0, -1) : found; // the last label is "nothing"
        const best = kept.indexOf(largest(kept));
        kept.forEach((score, label) => { if (named !== "softmax" || label === best) rows.push([score, row, label]); });
    }
    if (named !== "softmax") rows.sort((a, b) => b[0] - a[0]);
    const boxes = rows.slice(0, most ?? undefined).filter(([score]) => score > threshold).map(([score, row, label]) => {
        const [x, y, w, h] = places.data.subarray(4 * row, 4 * row + 4);
        const sides = [(x - w / 2) * width, (y - h / 2) * height, (x + w / 2) * width, (y + h / 2) * height];
        return { label: names[label] ?? `LABEL_${label}`, score, box: box(sides) };
    });
    return { kind: "boxes", width, height, boxes };
}

// Boxes in pixels of the input, scores and classes.
function decoded({ labels: names, overlap: most = 1 }, [places, values, classes], { picture, rule, threshold = 0.5 }) {
    const { width, height } = picture;
    const size = scaledSize(rule, height, width);
    const [top, left] = placeOf(rule, size);
    const moved = (at, plus, of, whole) => Math.min(Math.max((at + plus) / of, 0), 1) * whole;
    const order = Array.from(values.data.keys()).sort((a, b) => values.data[b] - values.data[a]);
    const kept = [];
    for (const row of order.filter((one) => values.data[one] > threshold)) {
        const [x0, y0, x1, y1] = places.data.subarray(4 * row, 4 * row + 4);
        const sides = [moved(x0, left, size[1], width), moved(y0, top, size[0], height), moved(x1, left, size[1], width), moved(y1, top, size[0], height)];
        if (kept.some((other) => overlap(sides, other.sides) > most)) continue;
        const label = Math.round(classes.data[row]);
        kept.push({ sides, label: names[label] ?? `LABEL_${label}`, score: values.data[row], box: box(sides) });
    }
    return { kind: "boxes", width, height, boxes: kept.map(({ sides: _, ...rest }) => rest) };
}

const vector = (_, [{ data, shape, dtype }]) => ({ kind: "curve", dtype, shape, values: Float32Array.from(data, Number) });
const numbers = (_, [one]) => (typeof one === "number" ? { kind: "numbers", dtype: "int32", shape: [], values: [one] }
    : { kind: "numbers", dtype: one.dtype, shape: one.shape, values: one.data });

// The number of outputs that a result is made of, 1 unless it is here.
const OUTPUTS = { queries: 2, decoded: 3 };
const NAMED = ["scores", "labels", "queries", "decoded"]; // results with labels

// Returns whether a result of a description can be made, of a method with so many outputs.
export function isResult({ kind, outputs, labels: names, function: named = "auto", scale, offset, most }, count) {
    const isNumbers = (list) => list === undefined || (Array.isArray(list) && [1, 3].includes(list.length) && list.every(Number.isFinite));
    return Object.hasOwn(RESULTS, kind) && Array.isArray(outputs) && outputs.length === (Object.hasOwn(OUTPUTS, kind) ? OUTPUTS[kind] : 1)
        && outputs.every((at) => Number.isInteger(at) && at >= 0 && at < count)
        && (Array.isArray(names) ? names.every((label) => typeof label === "string") : !NAMED.includes(kind))
        && Object.hasOwn(FUNCTIONS, named) && isNumbers(scale) && isNumbers(offset)
        && (most === undefined || most === null || (Number.isInteger(most) && most > 0));
}

const RESULTS = { scores, labels, depth, cutout, picture: painted, queries, decoded, vector, numbers };

// Returns the results of a call, by the description's outputs.
export function resultsOf(described, outputs, context) {
    checkFinite(outputs);
    return described.map((one) => {
        const made = RESULTS[one.kind](one, one.outputs.map((at) => outputs[at]), context);
        return one.title ? { title: one.title, ...made } : made;
    });
}
