// Resizing of pictures and of maps of numbers, with the results of tasks/vision: scaling/resample.py, interpolate.py.

import { InputError } from "../errors.js";

const BITS = 22; // of weights after the point
const MOST_PIXELS = 1 << 14; // per side

const sinc = (x) => (x === 0 ? 1 : Math.sin(x * Math.PI) / (x * Math.PI));

function cubic(x) {
    const slope = -0.5;
    if (x < 1) return ((slope + 2) * x - (slope + 3)) * x * x + 1;
    return x < 2 ? (((x - 5) * x + 8) * x - 4) * slope : 0;
}

// By Pillow's numbers: the filter, and its reach to each side in pixels. 0 takes the nearest pixel.
const FILTERS = {
    1: [(x) => (x >= -3 && x < 3 ? sinc(x) * sinc(x / 3) : 0), 3],
    2: [(x) => Math.max(0, 1 - Math.abs(x)), 1],
    3: [(x) => cubic(Math.abs(x)), 2],
    4: [(x) => (x > -0.5 && x <= 0.5 ? 1 : 0), 0.5],
    5: [(x) => (Math.abs(x) < 1 ? sinc(Math.abs(x)) * (0.54 + 0.46 * Math.cos(Math.abs(x) * Math.PI)) : 0), 1],
};

// Returns the start and the weights of each new pixel along a dim.
function filterWeights(before, size, resample) {
    const scale = before / size;
    if (resample === 0) return Array.from({ length: size }, (_, i) => [Math.trunc((i + 0.5) * scale), [1 << BITS]]);
    const [filter, reach] = FILTERS[resample];
    const stretch = Math.max(scale, 1);
    const support = reach * stretch;
    return Array.from({ length: size }, (_, i) => {
        const center = (i + 0.5) * scale;
        const start = Math.max(Math.trunc(center - support + 0.5), 0);
        const end = Math.min(Math.trunc(center + support + 0.5), before);
        const shares = [];
        let total = 0;
        for (let tap = 0; tap < end - start; tap++) {
            shares.push(filter((tap + start - center + 0.5) * (1 / stretch)));
            total += shares[tap];
        }
        const by = total === 0 ? 1 : 1 / total;
        return [start, shares.map((share) => Math.trunc((share * by >= 0 ? 0.5 : -0.5) + share * by * 2 ** BITS))];
    });
}

// Scales the dim whose neighbours are `step` bytes apart; `lines` has the start of each line along it.
function scaleLines(pixels, made, lines, step, before, size, resample) {
    const weights = filterWeights(before, size, resample);
    lines.forEach(([from, to]) => {
        weights.forEach(([start, taps], i) => {
            let total = 1 << (BITS - 1);
            for (let tap = 0; tap < taps.length; tap++) total += pixels[from + (start + tap) * step] * taps[tap];
            made[to + i * step] = Math.min(Math.max(total >> BITS, 0), 255);
        });
    });
}

// Returns a picture { width, height, data } with three bytes for each pixel, in another size.
export function resized({ width, height, data }, rows, columns, resample) {
    let current = data;
    if (width !== columns) {
        const lines = Array.from({ length: height * 3 }, (_, i) => {
            const [y, plane] = [Math.floor(i / 3), i % 3];
            return [y * width * 3 + plane, y * columns * 3 + plane];
        });
        const made = new Uint8Array(height * columns * 3);
        scaleLines(current, made, lines, 3, width, columns, resample);
        current = made;
    }
    if (height !== rows) {
        const made = new Uint8Array(rows * columns * 3);
        scaleLines(current, made, Array.from({ length: columns * 3 }, (_, i) => [i, i]), columns * 3, height, rows, resample);
        current = made;
    }
    return { width: columns, height: rows, data: current };
}

// Rounds to the nearest whole number, and halves to even ones, as Python does.
const rounded = (value) => {
    const low = Math.floor(value);
    return value - low > 0.5 || (value - low === 0.5 && low % 2) ? low + 1 : low;
};

// Returns [height, width] to which a rule scales a picture.
export function scaledSize({ scaled, size, multiple }, height, width) {
    if (!scaled) return [height, width];
    if (scaled === "longer" || scaled === "fit") {
        const scale = Math.min(size[0] / height, size[1] / width);
        return [height, width].map((side) => Math.max(Math.trunc(side * scale + 0.5), 1));
    }
    let sides = size;
    if (scaled === "shorter") {
        const longer = Math.trunc((size[0] * Math.max(height, width)) / Math.min(height, width));
        if (longer > MOST_PIXELS) throw new InputError(`a picture of ${width} by ${height} pixels is too long to be resized`);
        sides = width <= height ? [longer, size[0]] : [size[0], longer];
    }
    return sides.map((side) => Math.max(rounded(side / multiple), 1) * multiple);
}

// Returns [top, left] of the part that the model sees, in a scaled picture.
export function placeOf({ scaled, part }, size) {
    if (!part || scaled === "longer") return [0, 0];
    return size.map((old, i) => (scaled === "fit" ? -Math.floor((part[i] - old) / 2) : Math.floor((old - part[i]) / 2)));
}

// ---- maps of numbers

const { fround } = Math;

// The weights of the four numbers around a place, with every step rounded to 32 bits.
function cubicWeights(t) {
    const f = fround;
    const near = (x) => f(f(f(f(f(1.25 * x) - 2.25) * x) * x) + 1);
    const far = (x) => f(f(f(f(f(f(-0.75 * x) + 3.75) * x) - 6) * x) + 3);
    return [-1, 0, 1, 2].map((step) => Math.abs(f(t - step))).map((x) => (x <= 1 ? near(x) : far(x)));
}

// Returns the places and weights of each new number along a dim.
function taps(before, size, mode) {
    if (before === size) return Array.from({ length: size }, (_, i) => [[i], [1]]);
    const scale = fround(before / size);
    return Array.from({ length: size }, (_, i) => {
        const at = fround(fround(fround(i + 0.5) * scale) - 0.5);
        if (mode === "bilinear") {
            const first = Math.min(Math.trunc(Math.max(at, 0)), before - 1);
            const share = fround(Math.max(at, 0) - first);
            return [[first, Math.min(first + 1, before - 1)], [fround(1 - share), share]];
        }
        const first = Math.floor(at);
        const weights = cubicWeights(fround(at - first));
        return [[-1, 0, 1, 2].map((step) => Math.min(Math.max(first + step, 0), before - 1)), weights];
    });
}

// Returns a map (rows, columns) in another size, as PyTorch's `interpolate` does it.
export function interpolate(values, [rows, columns], [height, width], mode = "bilinear") {
    const down = taps(rows, height, mode);
    const across = taps(columns, width, mode);
    const made = new Float32Array(height * width);
    const line = new Float32Array(columns);
    down.forEach(([places, weights], y) => {
        for (let x = 0; x < columns; x++) {
            line[x] = places.reduce((sum, at, i) => fround(sum + fround(values[at * columns + x] * weights[i])), 0);
        }
        across.forEach(([from, shares], x) => {
            made[y * width + x] = from.reduce((sum, at, i) => fround(sum + fround(line[at] * shares[i])), 0);
        });
    });
    return made;
}
