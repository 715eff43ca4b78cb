// Speech as text, by encoder-decoders that answer token by token: Whisper and Moonshine (tasks/sound/speech).
//
// The encoder's outputs stay on the GPU. Steps sample the likeliest token there, unless a rule changes the logits.

import { InputError } from "../errors.js";
import { checkFinite, checking, demand, methodOf } from "../task/checks.js";
import { endOf } from "../task/parts.js";
import { samplesOf } from "../task/sounds.js";
import { typed } from "../task/typed.js";
import { checkFiles, kept, openTokenizer } from "../tokenizer.js";
import { makeFeatures } from "./features.js";
import { makeRule, split } from "./times.js";

const PER_TIME = 2; // frames of features for a timestamp: the encoder's convolutions halve their number

const isNatural = (value) => Number.isInteger(value) && value >= 0 && value < 2 ** 31;
const areNatural = (list) => Array.isArray(list) && list.every(isNatural);
const areNamed = (table) => table !== null && typeof table === "object" && areNatural(Object.values(table));

function checkTask(task, methods) {
    const { input, decoder } = task;
    checkFiles(input);
    const encoder = methodOf(task, methods);
    const [steps, greedy] = [decoder.method, decoder.greedy].map((method) => methodOf({ method }, methods));
    const { rate, longest, frames, features } = input;
    demand([rate, longest].every((one) => isNatural(one) && one > 0), "its sounds have no rate");
    demand(encoder.inputs.length === 1 && encoder.inputs[0].dtype?.startsWith("float"), "its encoder takes no sounds");
    demand((frames === null) !== (features === null), "its sounds are neither samples nor features");
    if (frames) demand(areNatural(frames) && frames.length === 3 && frames[0] > 0, "its sounds have no frames");
    if (features) {
        const { bands, fft, hop } = features;
        demand([bands, fft, hop].every((one) => isNatural(one) && one > 0 && one <= 1 << 14) && hop <= fft && fft >= 4, "its sounds have no features");
        demand(encoder.plans.every(({ shapes: [shape] }) => `${shape}` === `${[1, bands, Math.floor(longest / hop)]}`), "its encoder takes other features");
    } else {
        demand(encoder.plans.every(({ shapes: [shape] }) => shape.length === 2 && shape[0] === 1 && shape[1] > 0), "its encoder takes no samples");
    }
    const { position, prompt, ends, end, suppressed, context, speed, languages, tasks, times } = decoder;
    demand(steps.inputs.length === encoder.outputs.length + 2 && isNatural(position) && position > 0 && position < steps.inputs.length, "its decoder takes something else");
    demand([steps, greedy].every(({ inputs, outputs }) => inputs.length === steps.inputs.length && outputs.length === 1), "its decoder takes or returns something else");
    demand(steps.plans.every(({ results: [{ shape }] }) => shape?.at(-1) > 0), "its decoder returns no logits");
    demand([prompt, ends, suppressed].every(areNatural) && prompt.length > 0 && isNatural(context), "its answers have no beginning or end");
    demand(speed === null || (Number.isFinite(speed) && speed > 0), "its answers have no length");
    if (features) {
        demand(areNamed(languages) && areNamed(tasks) && isNatural(end), "it has no languages");
        demand(Array.isArray(times) && isNatural(times[0]) && times[0] > 0 && (times[1] === null || isNatural(times[1])), "it has no times");
    }
}

// Returns the number of the largest value.
function best(logits) {
    let found = 0;
    for (let i = 1; i < logits.length; i++) if (logits[i] > logits[found]) found = i;
    return found;
}

// An answer in tokens to an input, by the methods of an encoder and a decoder.
class Decoder {
    #program;
    #encoder;
    #facts;
    #inputs;
    #counts;

    constructor(program, { method, decoder }, methods) {
        this.#program = program;
        this.#encoder = method;
        this.#facts = decoder;
        this.#inputs = methods[decoder.method].inputs;
        this.#counts = new Set(methods[decoder.method].plans.map(({ shapes: [[, count]] }) => count));
    }

    // Returns the tokens that follow a prompt. `rule` changes the logits of each step; `ends` are stop tokens.
    async tokens(source, prompt, most, { rule, ends = this.#facts.ends } = {}) {
        const { suppressed, context } = this.#facts;
        const encoded = await this.#program.run(this.#encoder, [source], { output: "gpu" });
        const found = [];
        try {
            let logits = await this.#begun(prompt, encoded);
            for (let step = 0; ; step++) {
                let token;
                if (logits) {
                    rule?.(found, logits);
                    if (!step) for (const one of suppressed) logits[one] = -Infinity;
                    token = best(logits);
                } else {
                    token = await this.#sampled(found.at(-1), prompt.length + step - 1, encoded);
                }
                if (ends.includes(token)) break;
                found.push(token);
                const position = prompt.length + step;
                if (found.length >= most || position >= context) break;
                logits = rule ? await this.#logits([token], position, encoded) : null;
            }
        } finally {
            for (const tensor of encoded) tensor.destroy();
        }
        return found;
    }

    // Returns the logits after a prompt, which goes in as a whole where there is a plan for its length.
    async #begun(prompt, encoded) {
        if (this.#counts.has(prompt.length)) return this.#logits(prompt, 0, encoded);
        let logits;
        for (const [position, token] of prompt.entries()) logits = await this.#logits([token], position, encoded);
        return logits;
    }

    #given(tokens, position, encoded) {
        const left = [...encoded];
        return this.#inputs.map((_, i) => {
            if (i === 0) return { data: Int32Array.from(tokens), shape: [1, tokens.length] };
            return i === this.#facts.position ? { data: Int32Array.of(position), shape: [1] } : left.shift();
        });
    }

    async #logits(tokens, position, encoded) {
        const outputs = await this.#program.run(this.#facts.method, this.#given(tokens, position, encoded));
        checkFinite(outputs);
        const [{ data, shape }] = outputs;
        return Float32Array.from(data.subarray(data.length - shape.at(-1)));
    }

    async #sampled(token, position, encoded) {
        const [{ data }] = await this.#program.run(this.#facts.greedy, this.#given([token], position, encoded));
        return data.at(-1);
    }
}

// Returns the task of a program that answers in tokens.
export function openTask(program, { task, methods }, base) {
    checking(() => checkTask(task, methods));
    const { input, decoder: facts } = task;
    const { inputs: [{ dtype }], plans } = methods[task.method];
    const opened = kept(async ({ tokenizers } = {}) => {
        const { tokenizer, text } = await openTokenizer(base, input, tokenizers);
        return { tokenizer, special: new Set((JSON.parse(text).added_tokens ?? []).filter((one) => one.special).map(({ id }) => id)) };
    });
    const decoder = new Decoder(program, task, methods);
    let running = Promise.resolve(); // an answer at a time: the decoder has one cache

    // Yields the tokens of each part of a sound that is samples for the encoder.
    async function* spoken(samples) {
        const { rate, frames: [step, first, least] } = input;
        const sizes = plans.map(({ shapes: [[, size]] }) => size).sort((a, b) => a - b);
        for (let start = 0, end; start < samples.length; start = end) {
            end = endOf(samples, start, Math.min(input.longest, sizes.at(-1)), rate);
            const part = samples.subarray(start, end);
            const whole = Math.max(least, Math.ceil((part.length - first) / step)) * step + first;
            const size = sizes.find((one) => one >= whole) ?? sizes.at(-1);
            const data = new Float32Array(size);
            data.set(part.subarray(0, size));
            const most = Math.max(1, Math.trunc((part.length / rate) * facts.speed) + 1);
            yield decoder.tokens(typed({ data, shape: [1, size] }, dtype), facts.prompt, Math.min(most, facts.context - facts.prompt.length));
        }
    }

    // Yields the tokens of each segment of a sound in windows of features.
    async function* transcribed(samples, { language, task: wanted = "transcribe" }) {
        const { bands, hop } = input.features;
        const { data, frames } = makeFeatures({ ...input.features, ...input })(samples);
        const size = Math.floor(input.longest / hop);
        const windowAt = (place) => {
            const part = new Float32Array(bands * size);
            for (let band = 0; band < bands; band++) part.set(data.subarray(band * frames + place, band * frames + Math.min(place + size, frames)), band * size);
            return typed({ data: part, shape: [1, bands, size] }, dtype);
        };
        const prompt = [...facts.prompt, ...await told(language, wanted, () => windowAt(0))];
        const [first, latest] = facts.times;
        const isLong = frames > size;
        if (!isLong) prompt.push(first - 1); // no timestamps
        const room = Math.max(1, facts.context - prompt.length);
        for (let place = 0; place < frames;) {
            const rule = isLong ? makeRule(first, latest, facts.end) : undefined;
            const tokens = await decoder.tokens(windowAt(place), prompt, room, { rule });
            const length = Math.floor(Math.min(size, frames - place) / PER_TIME);
            const [segments, understood] = split(tokens, first, length);
            for (const segment of segments) yield segment.filter((token) => token < first);
            place += understood > 0 && understood < length ? understood * PER_TIME : size;
        }
    }

    // Returns the tokens of the language, which is found in the first window by default, and of the task.
    async function told(language, wanted, firstWindow) {
        const { languages, tasks, prompt } = facts;
        const names = Object.keys(languages);
        if (!names.length) {
            if (language !== undefined || wanted !== "transcribe") throw new InputError(`${program.name} knows one language: give neither a language nor a task`);
            return [];
        }
        if (!Object.hasOwn(tasks, wanted)) throw new InputError(`the task ${wanted} is not one of ${Object.keys(tasks).join(", ")}`);
        if (language !== undefined && !Object.hasOwn(languages, language)) throw new InputError(`the language ${language} is not one of ${names.join(", ")}`);
        if (language !== undefined) return [languages[language], tasks[wanted]];
        const known = new Set(Object.values(languages));
        const rule = (_, logits) => logits.forEach((_value, token) => { if (!known.has(token)) logits[token] = -Infinity; });
        const found = await decoder.tokens(firstWindow(), prompt, 1, { rule, ends: [] });
        return [found[0], tasks[wanted]];
    }

    // Returns the text of a sound. `onText` gets the text each time that it has grown.
    //
    // language   of models that know several: a name such as "en"; by default found in the sound
    // task       "transcribe", or "translate" into English
    // libraries  { tokenizers }, a module in place of the folder's
    async function heard(given, { onText, libraries, ...options }) {
        const [samples, { tokenizer, special }] = await Promise.all([samplesOf(given, input.rate), opened(libraries)]);
        if (!input.features && (options.language !== undefined || (options.task ?? "transcribe") !== "transcribe")) {
            throw new InputError(`${program.name} knows one language: give neither a language nor a task`);
        }
        let text = "";
        for await (const tokens of input.features ? transcribed(samples, options) : spoken(samples)) {
            const said = tokens.filter((token) => !special.has(token));
            const more = said.length ? tokenizer.decode(JSON.stringify(said)) : "";
            text += more;
            if (more) onText?.(text);
        }
        return [{ kind: "text", text }];
    }

    async function answer(given, options = {}) {
        const before = running;
        let done;
        running = new Promise((resolve) => { done = resolve; });
        await before;
        try {
            return await heard(given, options);
        } finally {
            done();
        }
    }
    return { answer };
}
