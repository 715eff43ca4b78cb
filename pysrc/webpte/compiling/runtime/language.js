// Text generation: a conversation in the caches of a language model's method.
//
// A prompt goes to the GPU in chunks, of which there are plans. The steps after it take their tokens on the GPU, where
// that is safe, and go there in batches: two are under way, while their tokens are returned one by one.

import { ClosedError, InputError, WebpteError } from "./errors.js";

const MOST_STEPS = 16; // in a batch
const IN_FLIGHT = 2; // batches
// Settings are float32: values that would become 0 or infinite are these.
const LEAST = 1e-30;
const MOST = 1e30;

const isInteger = (value, end) => Number.isInteger(value) && value >= 0 && value < end;

function numberOf(name, value, holds, what) {
    if (typeof value !== "number" || !Number.isFinite(value) || !holds(value)) throw new InputError(`${name} must be ${what}, not ${value}`);
    return value;
}

// Returns the inputs of the sampler: settings and seed, or null for the greedy one.
function samplerOf({ temperature = 0, topK, topP, minP, seed }) {
    numberOf("temperature", temperature, (value) => value >= 0, "0 or more");
    const k = numberOf("topK", topK ?? 0, (value) => isInteger(value, Infinity), "a whole number");
    const p = numberOf("topP", topP ?? 1, (value) => value > 0 && value <= 1, "above 0 and at most 1");
    const least = numberOf("minP", minP ?? 0, (value) => value >= 0 && value <= 1, "from 0 to 1");
    if (temperature === 0) return null;
    const between = Math.min(Math.max(temperature, LEAST), MOST);
    const settings = Float32Array.of(between, Math.min(k, MOST), Math.max(p, LEAST), least, 1, 0, 0, 0);
    return [settings, seedOf(seed)];
}

function seedOf(seed) {
    if (seed === undefined || seed === null) return crypto.getRandomValues(new Int32Array(2));
    const isSeed = typeof seed === "bigint" ? seed >= 0n && seed < 2n ** 64n : isInteger(seed, 2 ** 53);
    if (!isSeed) throw new InputError(`a seed must be an integer from 0 to 2^64 - 1, not ${seed}`);
    return new Int32Array(BigUint64Array.of(BigInt(seed)).buffer);
}

// Returns the sizes of calls for the last `left` of `count` tokens. Where caches can be written again, the last call may
// begin earlier, so that fewer calls are enough.
export function chunksOf(left, count, chunks, rewinds) {
    if (left <= 0) return [];
    const fits = chunks.findLast((size) => size <= left);
    const several = [fits, ...chunksOf(left - fits, count, chunks, rewinds)];
    const whole = rewinds ? chunks.find((size) => size >= left && size <= count) : undefined;
    return whole && cost([whole]) <= cost(several) ? [whole] : several;
}

const CALL = 32; // a call takes as long as this many tokens more: it reads all weights
const cost = (sizes) => sizes.reduce((sum, size) => sum + size + CALL, 0);

// Steps of a method for one token each, several in one submission: each takes the token that the one before has sampled.
class Steps {
    #table;
    #inner;
    #batches = new WeakMap(); // by plan

    constructor(table, inner) {
        this.#table = table;
        this.#inner = inner;
    }

    // Submits steps with these inputs; with `follows` the first takes the last token of the steps before. Promises their
    // number, which is less where they are not of one plan, and a promise of their tokens.
    async submit(name, inputs, follows) {
        const { checked, chosen, entry: found, fill, request, built } = this.#inner;
        const method = this.#table.methods[name];
        const given = inputs.map((one) => checked(name, one));
        const entry = await found(name, given[0]);
        const { methods } = built();
        const same = given.findIndex((values) => chosen(name, methods[name], values) !== entry);
        const steps = same < 0 ? given : given.slice(0, same);
        const batch = await this.#batch(entry, steps.length, follows);
        const row = batch.payload.length / steps.length;
        steps.forEach((values, i) => fill(batch.payload.subarray(i * row, (i + 1) * row), entry.plan, method, values, name));
        const running = request(batch, (bytes) => [...new Int32Array(bytes.slice().buffer)]);
        running.catch(() => {}); // awaited when its tokens are needed
        return { count: steps.length, running };
    }

    // A plan of several steps: the uploads of all go up as one block, from which each step copies its part.
    async #batch(entry, count, follows) {
        if (!this.#batches.has(entry)) this.#batches.set(entry, new Map());
        const batches = this.#batches.get(entry);
        const key = `${count} ${follows}`;
        if (!batches.has(key)) batches.set(key, await this.#made(entry, count, follows));
        return batches.get(key);
    }

    async #made({ plan, id }, count, follows) {
        const built = this.#inner.built();
        const { engine, buffers } = built;
        const row = Math.ceil(plan.payload / 16) * 16;
        const sizes = [count * row, count * 4, ...(built.token ? [] : [4])];
        const made = JSON.parse(await engine.createBuffers(JSON.stringify(sizes), "storage"));
        buffers.push(...made);
        const [block, tokens] = made;
        const token = built.token ??= made[2]; // the last token that steps have sampled
        const given = buffers[plan.uploads.find(([, offset]) => offset === plan.packed[0][0])[0]];
        const sampled = buffers[plan.readbacks.find(([, , offset]) => offset === plan.results[0].offset)[0]];
        const parts = Array.from({ length: count }, (_, i) => [
            id,
            [
                ...plan.uploads.map(([buffer, offset, size]) => [block, buffers[buffer], size, i * row + offset, 0]),
                ...(i ? [[tokens, given, 4, 4 * i - 4, 0]] : follows ? [[token, given, 4, 0, 0]] : []),
            ],
            [[sampled, tokens, 4, 0, 4 * i], ...(i === count - 1 ? [[sampled, token, 4, 0, 0]] : [])],
        ]);
        const payload = new Uint8Array(count * row);
        const commands = {
            uploads: [[block, 0, count * row]], clears: [], parts, dispatches: [],
            readbacks: [[tokens, 4 * count, 0]], resultBytes: 4 * count,
        };
        return { ...await this.#inner.planned(built, commands, payload), payload };
    }
}

export class Language {
    #facts;
    #inner;
    #steps;
    #cached = []; // the tokens in the caches
    #busy = false;

    // table  the program's description
    // inner  functions of the program that its users do not see
    constructor(table, inner) {
        this.#facts = table.language;
        this.#inner = inner;
        this.#steps = new Steps(table, inner);
    }

    // Forgets the conversation, because another call may have written to the caches.
    disturb() {
        this.#cached = [];
    }

    // Yields the tokens that follow a prompt; what its beginning has in common with the conversation is not computed again.
    //
    // maxNewTokens  by default until the context is full
    // temperature   0: the likeliest token; else drawn by topK, topP, minP and seed
    // stop          tokens that end the answer, which are not yielded; by default the program's own
    // signal        an AbortSignal
    async *generate(prompt, options = {}) {
        const { context, vocabulary, stop: own } = this.#facts;
        const { maxNewTokens = Infinity, stop = own, signal } = options;
        const tokens = [...prompt].map(Number);
        if (!tokens.length || !tokens.every((token) => isInteger(token, vocabulary))) {
            throw new InputError(`a prompt has tokens from 0 to ${vocabulary - 1}`);
        }
        if (tokens.length > context) throw new InputError(`a prompt of ${tokens.length} tokens is over the ${context} of the context`);
        const sampler = samplerOf(options);
        const stops = new Set(stop);
        if (this.#busy) throw new WebpteError("one answer at a time: await the answer that is under way, or end it");
        this.#busy = true;
        const flight = [];
        try {
            signal?.throwIfAborted();
            let token = await this.#prefill(tokens, sampler);
            let left = Math.min(maxNewTokens, context - tokens.length + 1);
            let next = tokens.length; // the position of the next step to submit
            let coming = 0; // tokens of the steps that are under way
            let most = 1;
            while (left > 0 && !stops.has(token)) {
                signal?.throwIfAborted();
                yield token;
                left--;
                if (!left) break;
                while (flight.length < (this.#facts.ahead ? IN_FLIGHT : 1) && coming < left) {
                    const count = Math.min(this.#facts.ahead ? most : 1, left - coming);
                    const inputs = Array.from({ length: count }, (_, i) => this.#inputs([token], next + i, sampler));
                    const batch = await this.#steps.submit(this.#name(sampler), inputs, coming > 0);
                    flight.push({ ...batch, tokens: [] });
                    next += batch.count;
                    coming += batch.count;
                    most = Math.min(2 * most, MOST_STEPS);
                }
                const [batch] = flight;
                if (!batch.tokens.length) batch.tokens = await batch.running;
                this.#cached.push(token);
                token = batch.tokens.shift();
                coming--;
                if (!batch.tokens.length) flight.shift();
            }
        } catch (error) {
            if (!(error instanceof ClosedError) && error?.name !== "AbortError") this.#cached = [];
            throw error;
        } finally {
            await Promise.allSettled(flight.map(({ running }) => running));
            this.#busy = false;
        }
    }

    #name(sampler) {
        return sampler ? this.#facts.sampled : this.#facts.greedy;
    }

    #inputs(tokens, position, sampler) {
        const given = [{ data: Int32Array.from(tokens), shape: [1, tokens.length] }, { data: Int32Array.of(position), shape: [1] }];
        return sampler ? [...given, position + tokens.length, ...sampler] : given;
    }

    // Writes the tokens that are not there to the caches; promises the token that follows.
    async #prefill(tokens, sampler) {
        const { rewinds, chunks } = this.#facts;
        const differs = this.#cached.findIndex((token, i) => token !== tokens[i]);
        let position = Math.min(differs < 0 ? this.#cached.length : differs, tokens.length - 1);
        if (position < this.#cached.length && !rewinds) position = 0;
        this.#cached = [];
        const calls = [];
        for (const size of chunksOf(tokens.length - position, tokens.length, chunks, rewinds)) {
            position = Math.min(position, tokens.length - size);
            const chunk = tokens.slice(position, position + size);
            const last = position + size === tokens.length ? sampler : null;
            const name = this.#name(last);
            calls.push(this.#inner.run(name, this.#inner.checked(name, this.#inputs(chunk, position, last))));
            position += size;
        }
        const results = await Promise.allSettled(calls);
        for (const { reason } of results) if (reason) throw reason;
        this.#cached = [...tokens];
        return results.at(-1).value[0].data.at(-1);
    }
}
