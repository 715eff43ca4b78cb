// The task of a compiled program: inputs as a page has them, prepared for the program, and its outputs as results.

import { checking, demand, methodOf } from "./checks.js";
import { pixelsOf, prepared } from "./pictures.js";
import { heard, isResult, painted, resultsOf } from "./results.js";
import { framesOf, samplesOf } from "./sounds.js";
import { typed } from "./typed.js";

export { colourOf } from "./results.js";
export { pixelsOf } from "./pictures.js";

const INPUTS = ["drawing", "picture", "sound", "numbers"];
const KNOWN_FILTERS = [0, 1, 2, 3, 4, 5];

const side = (value) => Number.isInteger(value) && value > 0 && value <= 1 << 14;
const perChannel = (list) => Array.isArray(list) && [1, 3].includes(list.length) && list.every(Number.isFinite);

// Checks the task of a description, whose methods were checked.
function checkTask(task, methods) {
    const { input, outputs } = task;
    const found = methodOf(task, methods);
    demand(INPUTS.includes(input?.kind), "its input is of an unknown kind");
    demand(input.kind === "numbers" || (found.inputs.length === 1 && found.inputs[0].dtype?.startsWith("float")), "its method takes something else");
    if (input.kind === "picture" || input.kind === "drawing") {
        const { rule, layout } = input;
        demand(["", "stretch", "shorter", "longer", "fit"].includes(rule?.scaled) && KNOWN_FILTERS.includes(rule.resample), "its pictures are prepared in an unknown way");
        demand(!rule.scaled || (rule.size.every(side) && rule.size.length === 2), "its pictures have no size");
        demand(rule.part === null || (rule.part.every(side) && rule.part.length === 2), "its pictures have no part");
        demand(side(rule.multiple) && Number.isFinite(rule.scale) && perChannel(rule.mean) && perChannel(rule.std) && !rule.std.includes(0), "its pictures have no colours");
        demand(typeof layout === "string" && /^[NCHW]+$/.test(layout) && side(input.channels), "its pictures have no layout");
        demand(found.plans.every(({ shapes }) => shapes[0].length === layout.length), "its pictures have another layout");
    }
    if (input.kind === "sound") {
        demand([input.rate, input.hop].every((one) => Number.isInteger(one) && one > 0), "its sounds have no rate");
        demand(found.plans.every(({ shapes: [shape] }) => shape.length === 2 && shape[1] >= input.hop), "its sounds have no frames");
    }
    demand(Array.isArray(outputs) && outputs.length > 0, "it has no results");
    for (const one of outputs) demand(isResult(one, found.outputs.length), `a result is ${one.kind}, of other outputs, or of other labels`);
}

// Returns planes (3, height, width) in the layout of an input.
function laidOut({ values, shape: [, height, width] }, { layout, channels, order }) {
    const sizes = { N: 1, C: channels, H: height, W: width };
    const shape = Array.from(layout, (dim) => sizes[dim]);
    const made = new Float32Array(channels * height * width);
    const plain = layout.indexOf("C") < layout.indexOf("H");
    const grey = (at) => 0.299 * values[at] + 0.587 * values[height * width + at] + 0.114 * values[2 * height * width + at];
    for (let channel = 0; channel < channels; channel++) {
        const plane = order === "BGR" ? 2 - channel : channel;
        for (let at = 0; at < height * width; at++) {
            const value = channels === 1 ? grey(at) : values[plane * height * width + at];
            made[plain ? channel * height * width + at : at * channels + channel] = value;
        }
    }
    return { data: made, shape };
}

// Returns the place of a pixel beyond a side: the picture is mirrored there, its last row or column included.
function mirrored(at, side) {
    const within = at % (2 * side);
    return within < side ? within : 2 * side - 1 - within;
}

// Fills a picture up to a size as the task in Python does.
function extended({ width, height, data }, [rows, columns]) {
    const made = new Uint8Array(rows * columns * 3);
    for (let y = 0; y < rows; y++) {
        for (let x = 0; x < columns; x++) {
            const from = 3 * (mirrored(y, height) * width + mirrored(x, width));
            made.set(data.subarray(from, from + 3), 3 * (y * columns + x));
        }
    }
    return { width: columns, height: rows, data: made };
}

// Returns the task of a program with this description.
export function openTask(program, { task, methods }) {
    checking(() => checkTask(task, methods));
    return new Task(task, methods[task.method], (inputs) => program.run(task.method, inputs));
}

class Task {
    #described;
    #method;
    #run;

    constructor(described, method, run) {
        this.#described = described;
        this.#method = method;
        this.#run = run;
    }

    // Returns the results for an input.
    async answer(given, options = {}) {
        const { input, outputs } = this.#described;
        if (input.kind === "numbers") {
            return resultsOf(outputs, await this.#run(Array.isArray(given) ? given : [given]), options);
        }
        if (input.kind === "sound") return this.#heard(await samplesOf(given, input.rate), options);
        const picture = await pixelsOf(given);
        if (input.rule.scaled) {
            const found = await this.#runAlone(laidOut(prepared(picture, input.rule), input));
            return resultsOf(outputs, found, { ...options, picture, rule: input.rule });
        }
        return this.#free(picture, options);
    }

    async #heard(samples, options) {
        const { input, outputs } = this.#described;
        const { calls, count } = framesOf(samples, input.hop, this.#shapes().at(-1));
        const found = [];
        for (const one of calls) found.push(await this.#run([this.#typed(one)]));
        const seconds = input.hop / input.rate;
        return outputs.map((one) => heard(one, found.map((tensors) => tensors[one.outputs[0]]), { ...options, count, seconds }));
    }

    // Runs the method with a picture: a batch of a fixed size repeats it, and only the first of the results counts.
    async #runAlone({ data, shape }) {
        const { layout } = this.#described.input;
        const batch = layout[0] === "N" ? Math.min(...this.#shapes().map(([first]) => first)) : 1;
        if (batch === 1) return this.#run([this.#typed({ data, shape })]);
        const all = new Float32Array(batch * data.length);
        for (let i = 0; i < batch; i++) all.set(data, i * data.length);
        const found = await this.#run([this.#typed({ data: all, shape: [batch, ...shape.slice(1)] })]);
        return found.map((one) => (one.shape?.[0] === batch
            ? { ...one, data: one.data.subarray(0, one.data.length / batch), shape: [1, ...one.shape.slice(1)] } : one));
    }

    #shapes() {
        return this.#method.plans.map(({ shapes }) => shapes[0]);
    }

    // Returns an input in the dtype of the method.
    #typed(given) {
        return typed(given, this.#method.inputs[0].dtype);
    }

    // Runs a program that takes pictures at their own size: in the smallest compiled size that holds the picture, which is
    // filled up, and whose result is cut; a picture that is too large becomes smaller.
    async #free(picture, options) {
        const { input, outputs } = this.#described;
        const [rows, columns] = [input.layout.indexOf("H"), input.layout.indexOf("W")];
        const sizes = this.#shapes().map((shape) => [shape[rows], shape[columns]]).sort((a, b) => a[0] * a[1] - b[0] * b[1]);
        const holds = (size) => size[0] >= picture.height && size[1] >= picture.width;
        const size = sizes.find(holds) ?? sizes.at(-1);
        let seen = picture;
        if (!holds(size)) {
            const fit = { scaled: "fit", size, part: null, resample: 2, multiple: 1, scale: 1, mean: [0], std: [1] };
            const { values, shape: [, height, width] } = prepared(picture, fit);
            const data = new Uint8Array(3 * height * width).map((_, i) => values[(i % 3) * height * width + Math.floor(i / 3)]);
            seen = { width, height, data };
        }
        const made = laidOut(prepared(extended(seen, size), input.rule), input);
        const found = await this.#runAlone(made);
        return outputs.map((one) => {
            const taken = one.outputs.map((at) => found[at]);
            if (one.kind !== "picture") return resultsOf([one], found, { ...options, picture: seen, rule: input.rule })[0];
            const [high, wide] = taken[0].shape.slice(-2);
            const cut = [Math.round((seen.height * high) / size[0]), Math.round((seen.width * wide) / size[1])];
            return { ...(one.title ? { title: one.title } : {}), ...painted(one, taken, { cut }) };
        });
    }
}
