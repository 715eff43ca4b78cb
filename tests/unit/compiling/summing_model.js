// A model whose next token is the sum of the tokens before it, modulo 50, for tests of language.js.
//
// Its caches are an array, and a step after `until` needs another plan. Calls are logged; the one numbered `failing` fails.

const { Language } = await import("./language.mjs");
const facts = { method: "f", greedy: "f.greedy", sampled: "f.sampled", chunks: [1, 2, 4], context: 40,
    vocabulary: 50, stop: [], rewinds: true, ahead: true, ...given.facts };
const log = [];
const cache = [];
const next = (end) => cache.slice(0, end).reduce((a, b) => a + b, 0) % 50;
const plan = { uploads: [[0, 0, 4]], packed: [[0]], readbacks: [[1, 4, 0]], results: [{ offset: 0 }], payload: 4 };
const entries = [{ plan, id: 1 }, { plan, id: 2 }];
let failing = given.failing ?? 0;
let kept = 0; // the last token of the steps before
const write = (tokens, position) => tokens.forEach((token, i) => { cache[position + i] = token; });
const engine = { createBuffers: async (sizes) => JSON.stringify(JSON.parse(sizes).map((_, i) => i + 10)) };
const built = { engine, buffers: [1, 2], methods: { "f.greedy": entries, "f.sampled": entries } };
const position = (values) => values[1].data[0];
const chosen = (name, plans, values) => entries[position(values) > (given.until ?? 1000) ? 1 : 0];
const inner = {
    built: () => built,
    checked: (name, inputs) => inputs,
    chosen,
    entry: async (name, values) => chosen(name, [], values),
    run: async (name, [tokens, at]) => {
        if (failing-- === 1) throw new Error("it failed");
        log.push([name, [...tokens.data], at.data[0]]);
        write([...tokens.data], at.data[0]);
        return [{ data: Int32Array.of(next(at.data[0] + tokens.data.length)) }];
    },
    fill: (payload, _plan, _method, values) => {
        new Int32Array(payload.buffer, payload.byteOffset, 3).set([values[0].data[0], position(values), 1]);
    },
    planned: async (_built, { parts }) => ({ parts, id: 9 }),
    request: async ({ payload, parts }, finish) => {
        if (failing-- === 1) throw new Error("it failed");
        const rows = new Int32Array(payload.buffer);
        const row = rows.length / parts.length;
        const follows = parts[0][1].length > 1;
        const tokens = parts.map((_, i) => {
            const [token, at] = rows.subarray(i * row, i * row + 2);
            write([i || follows ? kept : token], at);
            return kept = next(at + 1);
        });
        log.push([parts.length, rows[1], follows]);
        return finish(new Uint8Array(Int32Array.from(tokens).buffer));
    },
};
const language = new Language({ language: facts, methods: {} }, inner);
const answer = async (prompt, options) => {
    const found = [];
    try {
        for await (const token of language.generate(prompt, options)) found.push(token);
    } catch (error) {
        found.push(`${error.name}: ${error.message}`);
    }
    return found;
};
