// A compiled program on a GPU: what its description says, by the engine that replays plans for Python, too.
//
// Buffers, kernels and plans of a description are numbered from 0 on; the engine gives numbers of its own.

import { BUFFER_USES, check } from "./description.js";
import { ClosedError, DeviceError, IndexRangeError, InputError, NoWebGPUError, ResizeError, SourceError, translated } from "./errors.js";
import { evaluate } from "./expressions.js";
import { checked, pack, unpack } from "./values.js";
import adapters from "../../engine/gpu/webgpu/adapter.js";
import makeEngine from "../../engine/gpu/webgpu/engine.js";
import makeReplay from "../../engine/gpu/webgpu/replay.js";
import makeUpload from "../../engine/gpu/webgpu/upload_constants.js";
import waiting from "../../engine/gpu/webgpu/waiting.js";
import files from "../../engine/browser/files.js";

const IN_PLACE_BYTES = 4 << 20; // of results that are written to the same memory in every call
const LARGE_FILE = 64 << 20; // bytes: such a file is read in ranges, while it is uploaded

// Bytes as the engine takes them from Python, which lends views of its memory.
const lent = (data) => ({ getBuffer: () => ({ data, release() {} }) });

// Views of bytes, which the engine uploads from and writes to: of an array; and of the inputs of a plan's next call, which
// `entry.write` writes directly to where the GPU reads them.
const viewOf = (data) => ({ size: data.length, bytes: () => data, writeTo: (target) => target.set(data), close() {} });
const inputsOf = (entry) => {
    const { payload: size } = entry.plan;
    let data;
    const writeTo = (target) => entry.write(target);
    return { size, writeTo, bytes() { writeTo(data ??= new Uint8Array(size)); return data; }, close() {} };
};

const isBuffer = (value) => globalThis.GPUBuffer && value instanceof GPUBuffer;
const isOnGpu = (input) => isBuffer(input) || isBuffer(input?.buffer);
let gpu = null; // the module of tensors on the GPU, once a call needs it

const engines = new WeakMap(); // by GPUDevice
const shared = new Map(); // devices that programs share, by what these need

// Returns the engine of a device, with a function that awaits its numbered requests.
function engineOf(device, software) {
    if (!engines.has(device)) {
        const waiter = waiting.open(device, software);
        const pending = new Map();
        const completed = (number, bytes, name, message) => {
            const { resolve, reject } = pending.get(number);
            pending.delete(number);
            if (name === undefined) resolve(bytes);
            else reject(Object.assign(new Error(message), { name }));
        };
        const engine = makeEngine(device, makeReplay, makeUpload, waiter, completed);
        let number = 0;
        // Starts a request; `finish` gets its bytes at once, before the next request can overwrite them.
        const request = (start, finish) => new Promise((resolve, reject) => {
            pending.set(++number, { resolve: (bytes) => { try { resolve(finish(bytes)); } catch (error) { reject(error); } }, reject });
            try {
                start(number);
            } catch (error) {
                pending.delete(number);
                reject(error);
            }
        });
        engines.set(device, { engine, waiter, request });
    }
    return engines.get(device);
}

function checkLimits({ features, limits }, has) {
    const missing = features.filter((name) => !has.features.has(name));
    if (missing.length) throw new DeviceError(`the program needs ${missing.join(", ")}, which this GPU lacks`);
    for (const [name, limit] of Object.entries(limits)) {
        if (!(has.limits[name] >= limit)) {
            throw new DeviceError(`the program needs a ${name} of ${limit}; this GPU has ${has.limits[name]}`);
        }
    }
}

// Finds the adapter of a device of the page, or else the browser's, with facts about it, and whether it computes on the CPU.
async function findAdapter(device) {
    const adapter = device ? { info: device.adapterInfo, features: device.features, limits: device.limits } : await adapters.request();
    if (!adapter) throw new NoWebGPUError("this browser offers no WebGPU adapter");
    const facts = JSON.parse(adapters.describe(adapter));
    const { vendor, architecture, description } = facts;
    facts.software ||= /swiftshader|llvmpipe/i.test([vendor, architecture, description].join(" "));
    return { adapter, ...facts };
}

// Returns a device that programs with the same needs share, until it is lost.
function sharedDevice({ features, limits }, adapter) {
    const needs = [features, limits].map((one) => JSON.stringify(one));
    const key = needs.join();
    if (!shared.has(key)) {
        const opening = adapters.open(adapter, ...needs);
        shared.set(key, opening);
        const forget = () => { if (shared.get(key) === opening) shared.delete(key); };
        opening.then((device) => device.lost.then(forget), forget);
    }
    return shared.get(key);
}

export async function fetched(url, as, signal) {
    let response;
    try {
        // Node cannot fetch files.
        const disk = url.protocol === "file:" && globalThis.process?.getBuiltinModule?.("node:fs/promises");
        response = disk ? new Response(await disk.readFile(url)) : await fetch(url, { signal });
    } catch (error) {
        signal?.throwIfAborted();
        throw new SourceError(`${url}: ${error.message}`, { cause: error });
    }
    if (!response.ok) throw new SourceError(`${url}: the server answered ${response.status}`);
    return response[as]();
}

// The modules of tasks, by the kind of their input.
const TASKS = {
    __proto__: null,
    text: () => import("./webpte-text.js"),
    sentences: () => import("./webpte-sentences.js"),
    speech: () => import("./webpte-speech.js"),
    spoken: () => import("./webpte-listen.js"),
    other: () => import("./webpte-task.js"),
};

const ORIGINAL = /\.p(te|td)$/;

// The files of a compiled program, fetched once; `originals` is the folder of those that were there before.
class Files {
    constructor(base, table, signal, originals, keep) {
        const names = [...new Set(table.kernels.map(({ wgsl }) => wgsl))];
        this.texts = Promise.all(names.map(async (name) => [name, await fetched(new URL(name, base), "text", signal)]));
        this.weights = table.files.map(async ({ name, bytes }) => {
            const url = new URL(name, ORIGINAL.test(name) ? originals : base);
            const file = bytes < LARGE_FILE || url.protocol === "file:" ? files.blobFile(await fetched(url, "blob", signal))
                : await (await import("./webpte-ranges.js")).opened(url, signal, keep);
            if (file.size !== bytes) throw new SourceError(`${name} has ${file.size} bytes, not ${bytes}: it is of another program`);
            return file;
        });
        for (const promise of [this.texts, ...this.weights]) promise.catch(() => {}); // awaited once there is a device
    }
}

const EVERY = [{ file: "program.json" }];

// Returns the rows of the descriptions that suit an adapter, by its facts; the best first.
export function descriptionsFor({ features: has, limits: most, software, packedDot, matrixShapes }, descriptions) {
    const suits = ({ software: needsSoftware, features = [], limits = {}, packedDot: dot, matrices = [], subgroup }) => (
        (software || !needsSoftware) && (packedDot || !dot) && features.every((name) => has.includes(name))
        && Object.entries(limits).every(([name, limit]) => most[name] >= limit) && matrices.every((shape) => matrixShapes.includes(shape))
        && (!subgroup || [most.subgroupMinSize, most.subgroupMaxSize].every((size) => size === subgroup))
    );
    const found = descriptions.filter(suits);
    return found.length ? found : EVERY;
}

// Opens the compiled program in a folder.
//
// base          the address of the folder, with a "/" at the end
// device        a GPUDevice of the page; by default one that all programs share
// signal        an AbortSignal, which ends the loading
// onProgress    called with { stage, done, total }; stages: compile, constants
// descriptions  the folder's descriptions, of which the first that suits, and passes its self-test, is taken
// originals     the address of the folder with the .pte and .ptd files, relative to `base`, which is the default
// keep          false: do not keep large files in the browser for the next visit
export async function open(base, { descriptions = EVERY, ...options } = {}) {
    for (let at = 0; ; at++) {
        const found = await findAdapter(options.device); // of an adapter a single device can be requested
        const rows = descriptionsFor(found, descriptions);
        const openRow = (row, more) => openAt(base, found, row, { ...options, ...more });
        if (!rows[at].test || !rows[at + 1]) return openRow(rows[at]);
        const program = await (await import("./webpte-self-test.js")).openTested(base, rows[at], openRow);
        if (program) return program;
    }
}

async function openAt(base, found, row, { device, signal, onProgress, originals = base, keep }) {
    const failing = new AbortController(); // ends what is still being fetched when something has failed
    const either = signal ? AbortSignal.any([signal, failing.signal]) : failing.signal;
    if (!device && row.limits) sharedDevice(row, found.adapter).catch(() => {}); // opens while the description comes
    const table = check(await fetched(new URL(row.file, base), "json", signal));
    const program = new Program(base, table, new Files(base, table, either, new URL(originals, base), keep), device);
    try {
        await program.load(found, signal, onProgress);
    } catch (error) {
        failing.abort();
        throw error;
    }
    return program;
}

class Program {
    #table;
    #files;
    #given;
    #built = null;
    #making = null;
    #language = null;
    #task = null;
    #base;
    #closed = false;

    constructor(base, table, found, given) {
        this.#base = base;
        this.#table = table;
        this.#files = found;
        this.#given = given;
        // By name: what a method takes and returns, and the shapes of the inputs that it was compiled for.
        this.methods = Object.fromEntries(Object.entries(table.methods).map(([name, { inputs, outputs, plans = [] }]) => (
            [name, { inputs, outputs, shapes: plans.map(({ shapes }) => shapes) }]
        )));
        this.name = table.name;
        for (const name of Object.keys(this.methods)) {
            if (!(name in this)) this[name] = (...inputs) => this.run(name, inputs);
        }
    }

    // Builds the program on its device. To be called once; `recover` builds it again.
    async load(found, signal, onProgress) {
        try {
            if (this.#table.language) await this.#speak();
            this.#built = await this.#build(found, signal, onProgress);
        } catch (error) {
            throw translated(error);
        }
    }

    // Adds what a language model needs: a module of its own, which other programs do without.
    async #speak() {
        const { Language } = await import("./webpte-language.js");
        this.#language ??= new Language(this.#table, {
            built: () => this.#built,
            checked: (name, inputs) => this.#checked(name, this.#table.methods[name], inputs),
            run: (name, values) => this.#run(name, this.#table.methods[name], values),
            entry: (name, values) => this.#entry(name, values),
            planned: (made, commands, data) => this.#planned(made, commands, viewOf(data)),
            request: (...given) => this.#request(...given),
            chosen,
            fill(payload, plan, method, values, name) {
                checkNumbers(plan, values, name);
                fill(payload, plan, method, values, name);
            },
        });
    }

    async #build({ adapter, software }, signal, onProgress) {
        const table = this.#table;
        checkLimits(table.device, adapter);
        const device = this.#given ?? await sharedDevice(table.device, adapter);
        const { engine, waiter, request } = engineOf(device, software);
        const progress = onProgress && ((stage, done, total) => onProgress({ stage, done, total }));
        const made = { engine, request, device, buffers: [], plans: [] };
        try {
            for (const use of BUFFER_USES) {
                const wanted = table.buffers.map((size, i) => [size, i]).filter(([, i]) => table.uses[i] === use);
                const ids = JSON.parse(await engine.createBuffers(JSON.stringify(wanted.map(([size]) => size)), use));
                wanted.forEach(([, i], at) => { made.buffers[i] = ids[at]; });
            }
            const compiling = this.#compile(engine, progress);
            compiling.catch(() => {}); // awaited below
            for (const [i, coming] of this.#files.weights.entries()) {
                const file = await coming;
                const rows = table.constants.filter((row) => row[1] === i);
                const described = rows.map(([buffer, , offset, size, convert]) => [made.buffers[buffer], offset, size, convert]);
                const total = rows.reduce((sum, row) => sum + row[3], 0);
                await engine.uploadConstants(file, JSON.stringify(described), total, progress, signal);
                file.keep?.();
            }
            for (const [buffer, offset, words] of table.contents) {
                engine.write(made.buffers[buffer], offset, lent(new Uint8Array(Uint32Array.from(words).buffer)));
            }
            const kernels = await compiling;
            signal?.throwIfAborted();
            made.kernels = kernels;
            made.methods = {};
            for (const [name, { plans = [] }] of Object.entries(table.methods)) {
                made.methods[name] = plans.map((plan) => ({ plan, write: null }));
                if (plans.length === 1) await this.#ready(made, made.methods[name][0]);
            }
            await waiter.measure();
        } catch (error) {
            free(made);
            throw error;
        }
        return made;
    }

    async #compile(engine, progress) {
        const texts = new Map(await this.#files.texts);
        const specs = this.#table.kernels.map(({ label, wgsl, bindings, overrides }) => (
            { label, code: texts.get(wgsl), bindings, overrides: Object.entries(overrides) }
        ));
        return JSON.parse(await engine.createPipelines(JSON.stringify(specs), progress));
    }

    // Makes a plan on the GPU, once: of several plans, each at its first call.
    #ready(made, entry) {
        return entry.ready ??= this.#make(made, entry).then(
            (found) => { Object.assign(entry, found); },
            (error) => { entry.ready = undefined; throw error; },
        );
    }

    async #make(made, entry) {
        const { plan } = entry;
        const there = ([buffer, ...rest]) => [made.buffers[buffer], ...rest];
        const { kernels } = made;
        return this.#planned(made, {
            uploads: plan.uploads.map(there), clears: plan.clears.map((buffer) => made.buffers[buffer]), parts: [],
            dispatches: plan.dispatches.map(([kernel, resources, grid]) => [kernels[kernel], resources.map(there), ...grid]),
            readbacks: plan.readbacks.map(there), resultBytes: plan.result,
        }, inputsOf(entry));
    }

    async #planned({ engine, plans }, commands, payload) {
        const id = await engine.createPlan(JSON.stringify(commands));
        plans.push(id);
        const size = commands.resultBytes;
        const result = size && size <= IN_PLACE_BYTES ? new Uint8Array(size) : null;
        engine.attachViews(id, payload, result && viewOf(result));
        return { id, result };
    }

    // Generates the tokens that follow a prompt, one by one; language.js has the options.
    generate(prompt, options) {
        if (!this.#language) throw new InputError(`${this.name} is not a language model`);
        if (this.#closed) throw new ClosedError(`${this.name} was closed`);
        return this.#language.generate(prompt, options);
    }

    // Writes the text that follows a text, or an answer to messages [{ role, content }], piece by piece: text.js.
    async *write(given, options) {
        const task = await this.#opened();
        if (!task.write) throw new InputError(`${this.name} writes no texts`);
        yield* task.write(given, options);
    }

    // Does the program's task: returns a list of results, which are plain data. task/results.js has their kinds.
    //
    // given    a picture, a sound, a text, a list of texts, or inputs, as the task takes them
    // options  topK: the number of scores; threshold: of boxes; of texts those of `write`, and onText, which gets the text
    //          each time that it has grown; of vectors those of sentences.js
    async answer(given, options) {
        return (await this.#opened()).answer(given, options);
    }

    // Returns the module of the program's task, once a call needs it.
    async #opened() {
        const { task } = this.#table;
        if (!task) throw new InputError(`${this.name} was compiled without a task: run its methods`);
        const { openTask } = await (TASKS[task.input?.kind] ?? TASKS.other)();
        return this.#task ??= openTask(this, this.#table, this.#base);
    }

    // The task in the description, if there is one: its title, its input and its outputs.
    get task() {
        return this.#table.task;
    }

    // The GPUDevice that the program runs on.
    get device() {
        return this.#built?.device;
    }

    // Runs a method, and returns a list of its outputs: tensors, and numbers. With `output: "gpu"` they are GpuTensors.
    async run(name, inputs = [], { output } = {}) {
        if (this.#closed) throw new ClosedError(`${this.name} was closed`);
        const method = Object.hasOwn(this.#table.methods, name) ? this.#table.methods[name] : null;
        if (!method) throw new InputError(`${this.name} has no method ${name}; it has ${Object.keys(this.methods).join(", ")}`);
        const onGpu = output === "gpu" || inputs.some(isOnGpu);
        if (onGpu) gpu ??= await import("./webpte-gpu.js");
        const values = this.#checked(name, method, inputs);
        if (!method.plans) return [...method.values];
        this.#language?.disturb(name);
        return this.#run(name, method, values, onGpu ? { owned: output === "gpu", finished } : null);
    }

    async #run(name, method, values, onGpu = null) {
        const entry = await this.#entry(name, values);
        checkNumbers(entry.plan, values, name);
        entry.write = (bytes) => fill(bytes, entry.plan, method, values, name);
        if (onGpu) return gpu.runOnGpu(this.#built, entry, method, values, onGpu);
        return this.#request(entry, (bytes) => finished(bytes, entry.plan, method, values));
    }

    // Returns the plan for these inputs, on the GPU. Calls that come while a plan is made wait, to keep their order.
    async #entry(name, values) {
        while (this.#making) await this.#making;
        const built = this.#built;
        if (!built) throw new ClosedError(`${this.name} was closed`);
        const entry = chosen(name, built.methods[name], values);
        if (!entry.id) {
            this.#making = this.#ready(built, entry).catch(() => {}).finally(() => { this.#making = null; });
            await this.#ready(built, entry);
        }
        return entry;
    }

    async #request({ id, result }, finish) {
        if (!this.#built) throw new ClosedError(`${this.name} was closed`);
        const { engine, request } = this.#built;
        try {
            return await request((number) => engine.run(number, id, "", true, false), (bytes) => finish(bytes ?? result));
        } catch (error) {
            throw translated(error);
        }
    }

    #checked(name, { inputs, plans = [] }, given) {
        if (given.length !== inputs.length) {
            throw new InputError(`method ${name} takes ${inputs.length} inputs, but ${given.length} were given`);
        }
        return inputs.map((info, i) => {
            const where = `method ${name}, ${info.name}`;
            if (info.kind === undefined) {
                return isOnGpu(given[i]) ? gpu.checkedOnGpu(given[i], info, where, plans, i, this.device)
                    : checked(given[i], info, where, plans.map(({ shapes }) => shapes[i]));
            }
            const number = Number(given[i]);
            if (number !== (number | 0)) throw new InputError(`${where}: an integer of 32 bits is needed`);
            return { number };
        });
    }

    // Builds the program again, after a DeviceLostError: state starts over. `device`: instead of a lost one of the page.
    async recover({ device, signal, onProgress } = {}) {
        if (this.#closed) throw new ClosedError(`${this.name} was closed`);
        const before = this.#built;
        this.#language?.disturb();
        this.#given = device ?? this.#given;
        await this.load(await findAdapter(this.#given), signal, onProgress);
        if (before) free(before);
        if (this.#closed) this.close();
    }

    // Frees everything on the GPU.
    close() {
        this.#closed = true;
        if (this.#built) free(this.#built);
        this.#built = null;
    }
}

function free({ engine, buffers, plans }) {
    for (const plan of plans.splice(0)) engine.destroyPlan(plan);
    const ids = buffers.splice(0).filter((id) => id !== undefined);
    if (ids.length) engine.destroyBuffers(JSON.stringify(ids));
}

const isSame = (a, b) => a.length === b.length && a.every((size, i) => size === b[i]);

// Returns the plan for these inputs: of their shapes, and where their numbers are in its ranges.
function chosen(name, plans, values) {
    const fits = plans.filter(({ plan }) => plan.shapes.every((shape, i) => shape === null || isSame(shape, values[i].shape)));
    const found = fits.find(({ plan }) => plan.when.every(([one, low, high]) => {
        const value = evaluate(one, values);
        return low <= value && value <= high;
    }));
    if (found) return found;
    const list = (shapes) => shapes.filter(Boolean).map((shape) => `[${shape.join(", ")}]`).join(" ");
    const given = list(values.map(({ shape }) => shape));
    const known = [...new Set(plans.map(({ plan }) => list(plan.shapes)))].join("; ");
    throw new ResizeError(fits.length
        ? `method ${name} was not compiled for these numbers, which decide about shapes`
        : `method ${name} was not compiled for inputs of the shapes ${given}; there are ${known}`);
}

// Checks the numbers in the inputs of a call that a plan has ranges for.
function checkNumbers(plan, values, name) {
    for (const [one, low, high, why] of plan.bounds) {
        const value = evaluate(one, values);
        if (value < low || value > high) throw new ResizeError(`method ${name}, ${why}: ${value} is not in ${low} to ${high}`);
    }
    for (const { message, inputs: read } of plan.faults) {
        for (const [input, low, high] of read) {
            if (values[input].data?.some((index) => index < low || index > high)) throw new IndexRangeError(`method ${name}, ${message}`);
        }
    }
}

// Writes the inputs of a call to the bytes that are uploaded.
function fill(payload, plan, { inputs }, values, name) {
    plan.packed.forEach((place, i) => {
        if (place && values[i].data) pack(values[i].data, inputs[i], place[1], payload, place[0], `method ${name}, ${inputs[i].name}`);
    });
    const words = new DataView(payload.buffer, payload.byteOffset);
    for (const [offset, one] of plan.symints) words.setInt32(offset, evaluate(one, values), true);
}

// Returns the outputs in the bytes that came back; of a call that leaves them on the GPU only checks the word for faults.
function finished(bytes, plan, { outputs }, values, owned = false) {
    if (plan.faults.length) {
        const number = new DataView(bytes.buffer, bytes.byteOffset + bytes.length - 16, 4).getUint32(0, true);
        const fault = number && plan.faults.find((one) => one.number === number);
        if (fault) throw new IndexRangeError(fault.message);
    }
    return owned ? null : plan.results.map((result, i) => (
        result.symint === undefined ? unpack(bytes, result, outputs[i].dtype) : evaluate(result.symint, values)
    ));
}
