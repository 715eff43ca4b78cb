// Checks a description before anything is made of it.
//
// A description comes from anywhere. A checked one can do nothing but run kernels on buffers of its own: every number
// is in the range of what it counts, and every range is inside of its buffer or file.

import { FormatError } from "./errors.js";
import { checkExpression } from "./expressions.js";
import { ARRAYS, BYTES, count } from "./values.js";

export const VERSION = 1;
const FORMAT = "webpte compiled program";
const MOST = { buffers: 1 << 20, kernels: 1 << 16, dispatches: 1 << 20, plans: 1 << 10, bytes: 2 ** 36, groups: 65535 };
const USES = ["read", "write", "uniform"];
export const BUFFER_USES = ["storage", "uniform", "constant"];
// Bytes of an element in a file and on the GPU, where constants are converted.
const CONVERTED = { float64: [8, 4], float16: [2, 4], bfloat16: [2, 4], int64: [8, 4] };
const NAME = /^(?!.*\.\.)[\w-][\w.-]*(\/[\w-][\w.-]*)*$/;

function need(holds, what) {
    if (!holds) throw new FormatError(`the description of the compiled program is wrong: ${what}`);
}

const isCount = (value, below = MOST.bytes) => Number.isSafeInteger(value) && value >= 0 && value < below;
const words = (value) => isCount(value) && value % 4 === 0;

function list(value, what, most = MOST.buffers) {
    need(Array.isArray(value) && value.length <= most, `${what} are no list, or too many`);
    return value;
}

const inside = (offset, size, total) => isCount(offset) && isCount(size) && offset + size <= total;

// Returns a description that is right; throws a FormatError for another.
export function check(table) {
    try {
        return checkAll(table);
    } catch (error) {
        if (error instanceof FormatError) throw error;
        throw new FormatError(`the description of the compiled program is wrong: ${error.message}`, { cause: error });
    }
}

function checkAll(table) {
    need(table !== null && typeof table === "object" && table.format === FORMAT, "it is of another format");
    if (table.version !== VERSION) {
        throw new FormatError(`the program was compiled as version ${table.version}; this runtime reads version ${VERSION}`);
    }
    const { buffers, files } = table;
    for (const size of list(buffers, "buffers")) need(words(size) && size > 0, `a buffer has ${size} bytes`);
    for (const file of list(files, "files", 1000)) {
        need(NAME.test(file?.name) && isCount(file.bytes), "a file has no name, or no size");
    }
    const isBuffer = (number) => isCount(number, buffers.length);
    const uses = list(table.uses, "uses of buffers");
    need(uses.length === buffers.length && uses.every((use) => BUFFER_USES.includes(use)), "a buffer has another use");
    for (const [buffer, offset, values] of list(table.contents, "contents")) {
        list(values, "contents", 65536 / 4);
        need(isBuffer(buffer) && words(offset) && inside(offset, 4 * values.length, buffers[buffer]), "contents outside of a buffer");
        need(values.every((value) => isCount(value, 2 ** 32)), "contents that are no words");
    }
    for (const row of list(table.constants, "constants")) checkConstant(row, table, isBuffer);
    for (const kernel of list(table.kernels, "kernels", MOST.kernels)) checkKernel(kernel);
    const { features, limits } = table.device;
    need(list(features, "features", 100).every((one) => typeof one === "string"), "a feature is no text");
    need(Object.values(limits).every((limit) => isCount(limit, 2 ** 53)), "a limit is no number");
    need(Object.keys(table.methods).length <= 1000, "it has too many methods");
    for (const [name, method] of Object.entries(table.methods)) checkMethod(name, method, table, isBuffer);
    if (table.language !== undefined) checkLanguage(table.language, table.methods);
    return table;
}

function checkLanguage({ greedy, sampled, chunks, context, vocabulary, stop }, methods) {
    for (const [name, inputs] of [[greedy, 2], [sampled, 5]]) {
        const method = Object.hasOwn(methods, name) ? methods[name] : null;
        need(method?.plans && method.inputs.length === inputs && method.outputs.length === 1, `method ${name} samples no token`);
        for (const { packed, uploads, readbacks, results } of method.plans) {
            const isGiven = uploads.some(([, offset]) => offset === packed[0]?.[0]);
            need(isGiven && readbacks.some(([, size, offset]) => offset === results[0].offset && size >= 4), `method ${name} takes no token`);
        }
    }
    need(list(chunks, "chunks", 64).every((one, i) => isCount(one, 2 ** 31) && (i ? one > chunks[i - 1] : one === 1)) && chunks.length, "it has no chunks");
    need(isCount(context, 2 ** 31) && isCount(vocabulary, 2 ** 31), "it has no context, or no vocabulary");
    need(list(stop, "stop tokens").every((one) => isCount(one, 2 ** 31)), "a stop token is no token");
}

function checkConstant([buffer, file, offset, size, convert], table, isBuffer) {
    need(isBuffer(buffer) && isCount(file, table.files.length), "a constant has no buffer or file");
    need(inside(offset, size, table.files[file].bytes), "a constant is outside of its file");
    need(convert === null || Object.hasOwn(CONVERTED, convert), `a constant is converted from ${convert}`);
    const [from, to] = CONVERTED[convert] ?? [1, 1];
    need(Math.ceil((size / from) * to / 4) * 4 <= table.buffers[buffer], "a constant is larger than its buffer");
}

function checkKernel({ label, wgsl, bindings, overrides }) {
    need(typeof label === "string" && NAME.test(wgsl), "a kernel has no label or file");
    need(list(bindings, "bindings", 64).every((use) => USES.includes(use)), `kernel ${label} has other bindings`);
    need(Object.values(overrides).every(Number.isFinite), `kernel ${label} has overrides that are no numbers`);
}

function checkMethod(name, { inputs, outputs, plans, values }, table, isBuffer) {
    for (const one of [...list(inputs, "inputs", 1000), ...list(outputs, "outputs", 1000)]) {
        need(one.kind !== undefined || Object.hasOwn(ARRAYS, one.dtype), `method ${name} has values of ${one.dtype}`);
    }
    if (plans === undefined) {
        need(list(values, "values", 1000).length === outputs.length, `method ${name} has no plans`);
        return;
    }
    need(inputs.every(({ kind = "int" }) => kind === "int"), `method ${name} takes values of another kind`);
    need(list(plans, "plans", MOST.plans).length > 0, `method ${name} has no plans`);
    for (const plan of plans) checkPlan(plan, { name, inputs, outputs }, table, isBuffer);
}

function checkPlan(plan, { name, inputs, outputs }, { buffers, kernels }, isBuffer) {
    const where = `a plan of method ${name}`;
    const { payload, result } = plan;
    const expression = (one) => checkExpression(one, inputs.length);
    const range = ([low, high]) => need([low, high].every(Number.isSafeInteger), `${where} has a range that is none`);
    need(words(payload) && words(result), `${where} has no sizes`);
    need(list(plan.shapes, "shapes").length === inputs.length && plan.packed.length === inputs.length, `${where} has other inputs`);
    plan.shapes.forEach((shape, i) => {
        const isTensor = inputs[i].kind === undefined;
        need(isTensor ? Array.isArray(shape) && shape.every((size) => isCount(size, 2 ** 31)) : shape === null, `${where} has no shapes`);
        if (!plan.packed[i]) return;
        const [offset, stored] = plan.packed[i];
        need(isTensor && Object.hasOwn(BYTES, stored), `${where} stores an input as ${stored}`);
        need(words(offset) && inside(offset, count(shape) * BYTES[stored], payload), `${where} packs an input outside of its payload`);
    });
    for (const [one, ...ends] of list(plan.when, "conditions")) expression(one), range(ends);
    for (const [one, low, high, why] of list(plan.bounds, "bounds")) {
        expression(one), range([low, high]);
        need(typeof why === "string", `${where} has a bound without a reason`);
    }
    for (const [offset, one] of list(plan.symints, "symints")) {
        need(words(offset) && inside(offset, 4, payload), `${where} has a SymInt outside of its payload`);
        expression(one);
    }
    for (const [buffer, offset, size] of list(plan.uploads, "uploads")) {
        need(isBuffer(buffer) && words(offset) && words(size) && inside(offset, size, payload) && size <= buffers[buffer], `${where} has a wrong upload`);
    }
    need(list(plan.clears, "clears").every(isBuffer), `${where} clears a buffer that does not exist`);
    for (const [kernel, resources, grid] of list(plan.dispatches, "dispatches", MOST.dispatches)) {
        need(isCount(kernel, kernels.length) && resources.length === kernels[kernel].bindings.length, `${where} has a wrong kernel`);
        for (const [buffer, offset, size] of resources) {
            need(isBuffer(buffer) && words(offset) && size > 0 && inside(offset, size, buffers[buffer]), `${where} binds bytes outside of a buffer`);
        }
        need(grid.length === 3 && grid.every((groups) => isCount(groups, MOST.groups + 1)), `${where} has a wrong grid`);
    }
    for (const [buffer, size, offset] of list(plan.readbacks, "read-backs")) {
        need(isBuffer(buffer) && words(size) && size <= buffers[buffer] && words(offset) && inside(offset, size, result), `${where} reads outside of a buffer`);
    }
    need(list(plan.results, "results").length === outputs.length, `${where} has other outputs`);
    for (const one of plan.results) {
        if (one.symint !== undefined) {
            expression(one.symint);
            continue;
        }
        const isTensor = Object.hasOwn(BYTES, one.stored) && Object.hasOwn(ARRAYS, one.dtype) && list(one.shape, "sizes").every((size) => isCount(size, 2 ** 31));
        need(isTensor && isCount(one.offset) && inside(one.offset, count(one.shape) * BYTES[one.stored], result), `${where} has a result outside of its bytes`);
    }
    for (const { number, message, inputs: read } of list(plan.faults, "faults")) {
        need(isCount(number, 2 ** 32) && typeof message === "string" && result >= 16, `${where} has a wrong fault`);
        for (const [input, ...ends] of read) {
            need(isCount(input, inputs.length) && inputs[input].kind === undefined, `${where} has a fault without an input`);
            range(ends);
        }
    }
}
