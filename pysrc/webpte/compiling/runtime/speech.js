// Speech as text, by programs that return letters for each frame of a sound (CTC): tasks/sound/speech/ctc.py.

import { checkFinite, checking, demand, methodOf } from "./task/checks.js";
import { endOf } from "./task/parts.js";
import { samplesOf } from "./task/sounds.js";
import { typed } from "./task/typed.js";

const LEAST_VARIANCE = 1e-7;

function checkTask(task, methods) {
    const { input, outputs } = task;
    const { inputs, plans, outputs: returned } = methodOf(task, methods);
    const { rate, normalizes } = input;
    demand(Number.isInteger(rate) && rate > 0 && typeof normalizes === "boolean", "its sounds have no rate");
    demand(inputs.length === 1 && inputs[0].dtype?.startsWith("float") && plans.every(({ shapes: [shape] }) => shape.length === 2 && shape[0] === 1 && shape[1] > 0), "its method takes no samples");
    const [{ kind, labels, blank, outputs: [at] }] = outputs;
    demand(kind === "letters" && outputs.length === 1 && returned[at]?.dtype?.includes("float"), "it has other results");
    demand(Array.isArray(labels) && labels.every((one) => typeof one === "string") && Number.isInteger(blank), "it has no letters");
    demand(plans.every(({ results }) => results[at].shape.length === 3 && results[at].shape[2] === labels.length), "it has other letters");
}

// Returns samples with a mean of 0 and a deviation of 1.
function normalized(samples) {
    const mean = samples.reduce((sum, value) => sum + value, 0) / samples.length;
    const variance = samples.reduce((sum, value) => sum + (value - mean) ** 2, 0) / samples.length;
    return samples.map((value) => (value - mean) / Math.sqrt(variance + LEAST_VARIANCE));
}

// Returns the number of the largest value.
const best = (row) => row.reduce((found, value, i) => (value > row[found] ? i : found), 0);

// Returns the task of a program that hears letters.
export function openTask(program, { task, methods }) {
    checking(() => checkTask(task, methods));
    const { input: { rate, normalizes }, outputs: [{ labels, blank, outputs: [at] }] } = task;
    const { inputs: [{ dtype }], plans } = methods[task.method];
    const sizes = plans.map(({ shapes: [[, size]] }) => size).sort((a, b) => a - b);

    // Returns the text of a part of a sound, in the shortest compiled length that holds it: repeated letters once.
    async function heard(part) {
        const size = sizes.find((one) => one >= part.length);
        const data = new Float32Array(size);
        data.set(normalizes ? normalized(part) : part);
        const outputs = await program.run(task.method, [typed({ data, shape: [1, size] }, dtype)]);
        checkFinite(outputs);
        const { data: logits, shape: [, frames, letters] } = outputs[at];
        const numbers = Array.from({ length: Math.ceil((frames * part.length) / size) }, (_, i) => best(logits.subarray(i * letters, (i + 1) * letters)));
        return numbers.map((number, i) => (number === blank || number === numbers[i - 1] ? "" : labels[number])).join("").trim();
    }

    // Returns the text of a sound: its parts are cut at quiet places. `onText` gets the text each time that it has grown.
    async function answer(given, { onText } = {}) {
        const samples = await samplesOf(given, rate);
        const texts = [];
        for (let start = 0, end; start < samples.length; start = end) {
            end = endOf(samples, start, sizes.at(-1), rate);
            const text = await heard(samples.subarray(start, end));
            if (text) texts.push(text);
            onText?.(texts.join(" "));
        }
        return [{ kind: "text", text: texts.join(" ") }];
    }
    return { answer };
}
