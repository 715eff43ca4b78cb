// Texts as vectors or labels, by encoders: their tokens, in the shapes that the program was compiled for, and its outputs.
//
// Inputs of the program are tokens, then possibly their mask, then possibly their types, each (rows, length). It returns a
// vector for each token or for each text (tasks/feature_extraction.py), or numbers for the labels of each text.

import { InputError } from "./errors.js";
import { checkFinite, checking, demand, methodOf } from "./task/checks.js";
import { FUNCTIONS, scores } from "./task/scores.js";
import { checkFiles, kept, openTokenizer } from "./tokenizer.js";

const MOST_INPUTS = 3;

const isNatural = (value) => Number.isInteger(value) && value >= 0 && value < 2 ** 31;

function checkTask(task, methods) {
    const { input, outputs } = task;
    checkFiles(input);
    const found = methodOf(task, methods);
    const { frame, pair = null, pad, longest } = input;
    const takes = found.inputs.length;
    demand(takes >= 1 && takes <= MOST_INPUTS && found.inputs.every(({ dtype }) => ["int32", "int64"].includes(dtype)), "its method takes no tokens");
    demand(found.plans.every(({ shapes }) => shapes.every((shape) => shape.length === 2 && `${shape}` === `${shapes[0]}` && shape[0] > 0)), "its method takes no rows of tokens");
    demand(Array.isArray(frame) && frame.every(([token, kind]) => (token === null || isNatural(token)) && isNatural(kind)), "its texts have no frame");
    demand(frame.filter(([token]) => token === null).length === 1, "its frame has no place for a text");
    demand(isNatural(pad) && isNatural(longest) && longest >= frame.length, "its texts have no length");
    if (pair) {
        demand(Array.isArray(pair) && pair.every(([token, kind]) => (token === null || isNatural(token)) && isNatural(kind)), "its pairs have no frame");
        const places = pair.filter(([token]) => token === null).map(([, , text]) => text);
        demand(`${places.sort()}` === "0,1" && longest >= pair.length, "its pairs have no places for two texts");
    }
    demand(found.plans.some(({ shapes: [[, length]] }) => length >= longest), "its method takes shorter texts");
    const [{ kind, outputs: [at], ...rest }] = outputs;
    demand(outputs.length === 1 && Object.hasOwn(RESULTS, kind) && RESULTS[kind].fits(rest), "it has other results");
    demand(found.outputs[at]?.dtype?.includes("float"), "its results are of no output");
    demand(found.plans.every(({ shapes: [[rows]], results }) => RESULTS[kind].ranks.includes(results[at].shape.length) && results[at].shape[0] === rows), "its output has other dims");
}

// The vector of a text by the vectors of its tokens.
const POOLINGS = {
    mean: (vectors, count, width) => Float32Array.from({ length: width }, (_, i) => {
        let sum = 0;
        for (let token = 0; token < count; token++) sum += vectors[token * width + i];
        return sum / (count || 1);
    }),
    cls: (vectors, _, width) => Float32Array.from(vectors.subarray(0, width)),
};

const product = (a, b) => a.reduce((sum, value, i) => sum + value * b[i], 0);

// Returns a vector with a length of 1; of length 0 it stays.
const normalized = (vector) => {
    const size = Math.max(Math.sqrt(product(vector, vector)), 1e-12);
    return vector.map((value) => value / size);
};

// The vector of a text; of a list of texts their vectors, and how similar each is to each, -1 to 1.
function vectors({ pooling: usual }, rows, texts, { pooling = usual, normalize = true }) {
    if (!Object.hasOwn(POOLINGS, pooling)) throw new InputError(`pooling is ${pooling}; there are ${Object.keys(POOLINGS).join(", ")}`);
    const found = rows.map(({ data, shape, count }) => (shape.length === 1 ? Float32Array.from(data) : POOLINGS[pooling](data, count, shape[1])));
    const units = found.map(normalized);
    const made = normalize ? units : found;
    if (!texts) return [{ kind: "curve", dtype: "float32", shape: [made[0].length], values: made[0] }];
    return [{ kind: "similarities", texts, vectors: made, similarities: units.map((one) => units.map((other) => product(one, other))) }];
}

const titleOf = (given) => (typeof given === "string" ? given : [given.text, given.text_pair].filter(Boolean).join(" | "));

// The best labels of each text, or pair of texts.
const classes = (described, rows, texts, options) => rows.map((row, i) => ({ ...(texts ? { title: titleOf(texts[i]) } : {}), ...scores(described, [row], options) }));

// By the kind of the output: makes the results of rows { data, shape, count }, the output of each text and the number of its
// tokens; `texts` is null for a single text. `ranks`: of the outputs; `fits`: whether the other fields are right.
const RESULTS = {
    vectors: { make: vectors, ranks: [2, 3], fits: ({ pooling }) => Object.hasOwn(POOLINGS, pooling) },
    scores: {
        make: classes, ranks: [2],
        fits: ({ labels, function: named }) => labels.every((one) => typeof one === "string") && Object.hasOwn(FUNCTIONS, named),
    },
};

// Returns the lengths of one or two texts that share a room: the shorter stays whole if it leaves the longer as much.
function sharing(lengths, room) {
    if (lengths.reduce((a, b) => a + b) <= room) return lengths;
    if (lengths.length === 1) return [room];
    let small = Math.min(...lengths);
    let large = small > room ? small : Math.max(small, room - small);
    if (small + large > room) [small, large] = [Math.floor(room / 2), Math.ceil(room / 2)];
    return lengths[0] > lengths[1] ? [large, small] : [small, large];
}

// Returns the task of a program that takes texts.
export function openTask(program, { task, methods }, base) {
    checking(() => checkTask(task, methods));
    return new Sentences(task, methods[task.method], (inputs) => program.run(task.method, inputs), base);
}

class Sentences {
    #described;
    #method;
    #run;
    #opened;

    constructor(described, method, run, base) {
        this.#described = described;
        this.#method = method;
        this.#run = run;
        this.#opened = kept((libraries = {}) => openTokenizer(base, described.input, libraries.tokenizers));
    }

    // Returns the results of a text, or of a list of texts. A classifier takes pairs { text, text_pair }, too.
    //
    // pooling     of vectors: "mean" of the tokens' vectors, or the first token's ("cls"), unless the program does that
    // normalize   make vectors 1 long
    // topK        of scores: the number of labels
    // libraries   { tokenizers }, a module in place of the folder's
    async answer(given, { libraries, ...options } = {}) {
        const many = Array.isArray(given);
        const texts = many ? given : [given];
        const isText = (one) => typeof one === "string";
        const isPair = (one) => this.#described.input.pair && isText(one?.text) && isText(one.text_pair ?? "");
        if (!texts.length || !texts.every((one) => isText(one) || isPair(one))) throw new InputError("the program takes a text, or a list of texts");
        const { tokenizer } = await this.#opened(libraries);
        const [described] = this.#described.outputs;
        const rows = await this.#rows(texts.map((text) => this.#encode(tokenizer, text)));
        return RESULTS[described.kind].make(described, rows, many ? texts : null, options);
    }

    // Returns the tokens of a text, or of two, with the special tokens around it, and their types: [[token, type], ...].
    // Texts that are too long are cut.
    #encode(tokenizer, given) {
        const { frame, pair, longest } = this.#described.input;
        const texts = typeof given === "string" ? [given] : [given.text, given.text_pair].filter((text, i) => !i || text);
        const parts = texts.length === 2 ? pair : frame;
        const encoded = texts.map((text) => JSON.parse(tokenizer.encode(text, false)));
        const lengths = sharing(encoded.map((tokens) => tokens.length), longest - parts.length + texts.length);
        return parts.flatMap(([special, kind, text = 0]) => (
            special === null ? encoded[text].slice(0, lengths[text]).map((token) => [token, kind]) : [[special, kind]]
        ));
    }

    // Returns the output for each row of tokens. Rows of similar length share a call.
    async #rows(rows) {
        const [{ outputs: [at] }] = this.#described.outputs;
        const shapes = this.#method.plans.map(({ shapes: [shape] }) => shape);
        const found = [];
        const rest = [...rows.keys()].sort((a, b) => rows[b].length - rows[a].length);
        while (rest.length) {
            const each = ([count, length]) => (count * length) / Math.min(count, rest.length);
            const [count, length] = shapes.filter(([, most]) => most >= rows[rest[0]].length)
                .reduce((best, one) => (each(one) < each(best) || (each(one) === each(best) && one[0] > best[0]) ? one : best));
            const group = rest.splice(0, count);
            const outputs = await this.#run(this.#inputs(group.map((number) => rows[number]), count, length));
            checkFinite(outputs);
            const { data, shape: [, ...shape] } = outputs[at];
            const size = data.length / count;
            group.forEach((number, row) => {
                found[number] = { data: data.subarray(row * size, (row + 1) * size), shape, count: rows[number].length };
            });
        }
        return found;
    }

    // Returns the inputs of a call: tokens, their mask and their types, as many of them as the method takes. A call with
    // more rows repeats the first.
    #inputs(rows, count, length) {
        const { pad } = this.#described.input;
        const columns = [[pad, ([token]) => token], [0, () => 1], [0, ([, kind]) => kind]];
        return this.#method.inputs.map((_, i) => {
            const [empty, of] = columns[i];
            const data = new Int32Array(count * length).fill(empty);
            for (let row = 0; row < count; row++) data.set((rows[row] ?? rows[0]).map(of), row * length);
            return { data, shape: [count, length] };
        });
    }
}
