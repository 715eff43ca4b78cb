// Tensors that stay on the GPU: outputs of calls with `output: "gpu"`, buffers of the page, and prepared pictures.

import { ClosedError, InputError, OutOfMemoryError, translated } from "./errors.js";
import { evaluate } from "./expressions.js";
import { BYTES, count, unpack } from "./values.js";

const WORD = 4; // WebGPU copies whole words
const LEAST_BYTES = 16;

// The dtype of the elements in a buffer, of a tensor with this dtype.
const STORED = { int64: "int32", int16: "int32", float64: "float32", bfloat16: "float32" };

const wordsOf = (size) => Math.ceil(size / WORD) * WORD;

const isBuffer = (value) => value instanceof GPUBuffer;

// A tensor in a GPUBuffer: elements row-major from its start, in the dtype `stored`. Programs on the same device take
// it as an input. Its buffer stays when the program that made it is closed, until `destroy`.
export class GpuTensor {
    #destroyed = false;
    #device;
    #read = () => { throw new InputError("only outputs of programs can be read; map a buffer of yours"); };

    // A buffer of the page (usage COPY_SRC), which stays the page's to destroy.
    constructor(buffer, shape, dtype = "float32", stored = STORED[dtype] ?? dtype) {
        Object.assign(this, { buffer, shape: [...shape], dtype, stored });
        if (!(this.bytes <= buffer.size)) throw new InputError(`${dtype} [${shape}] does not fit into a GPUBuffer of ${buffer.size} bytes`);
    }

    // Makes a tensor on a device, which `read` reads back.
    static on(device, buffer, result, dtype, read) {
        const tensor = new GpuTensor(buffer, result.shape, dtype, result.stored);
        tensor.#device = device;
        tensor.#read = read;
        return tensor;
    }

    // Bytes to copy for all elements.
    get bytes() {
        return wordsOf(count(this.shape) * BYTES[this.stored]);
    }

    // Throws an error unless the tensor can be used, by a program on this device.
    check(device = this.#device) {
        if (this.#destroyed) throw new ClosedError("this GpuTensor was destroyed");
        if (this.#device && this.#device !== device) throw new InputError("this GpuTensor is on another device: read it, and give the array");
    }

    // Reads the tensor back. Only for outputs of programs; a page reads its own buffers.
    async read() {
        this.check();
        try {
            return await this.#read(this);
        } catch (error) {
            throw translated(error);
        }
    }

    // Frees the memory. A second call does nothing.
    destroy() {
        this.#destroyed = true;
        this.buffer.destroy();
    }
}

// Returns a function that reads a tensor back, by an engine and the function that awaits its requests.
function reader(engine, request) {
    return async (tensor) => {
        const id = engine.adoptBuffer(tensor.buffer);
        const place = { offset: 0, stored: tensor.stored, dtype: tensor.dtype, shape: tensor.shape };
        try {
            return await request((number) => engine.read(number, id, tensor.bytes), (bytes) => unpack(bytes, place, tensor.dtype));
        } finally {
            engine.forgetBuffers(JSON.stringify([id]));
        }
    };
}

// Checks an input on the GPU, and returns its { tensor, shape }.
export function checkedOnGpu(value, info, where, plans, i, device) {
    const only = plans.length === 1 ? plans[0] : null;
    if (isBuffer(value) && !only) throw new InputError(`${where}: its shape is not fixed: give new GpuTensor(buffer, shape)`);
    if (!isBuffer(value) && !(value instanceof GpuTensor)) throw new InputError(`${where}: a GPUBuffer or a GpuTensor is needed`);
    const tensor = isBuffer(value) ? new GpuTensor(value, only.shapes[i], info.dtype, only.packed[i]?.[1]) : value;
    tensor.check(device);
    if (plans.some((plan) => needsElements(plan, i))) {
        throw new InputError(`${where}: its elements are needed before the call: give them as an array`);
    }
    if (tensor.dtype !== info.dtype) throw new InputError(`${where}: ${info.dtype} is needed, not ${tensor.dtype}`);
    return { tensor, shape: tensor.shape };
}

// Returns the copies of a call's inputs on the GPU, as the engine takes them; `adopt` gives a number to a GPUBuffer.
// Throws an InputError for elements that are stored in another way.
function inputCopies(plan, values, inputs, buffers, adopt) {
    const copies = [];
    values.forEach(({ tensor }, i) => {
        if (!tensor || !plan.packed[i]) return;
        const [offset, stored] = plan.packed[i];
        if (tensor.stored !== stored) throw new InputError(`${inputs[i].name}: its elements are ${tensor.stored} on the GPU, not ${stored}`);
        const [buffer, start] = plan.uploads.find(([, from, size]) => from <= offset && offset < from + size) ?? [];
        if (buffer !== undefined && tensor.bytes) copies.push([adopt(tensor.buffer), buffers[buffer], tensor.bytes, 0, offset - start]);
    });
    return copies;
}

// Returns whether elements of an input decide about numbers of a plan, or are indices that are checked before.
const needsElements = ({ when, bounds, symints, faults, results }, i) => (
    faults.some(({ inputs }) => inputs.some(([input]) => input === i))
    || JSON.stringify([when, bounds, symints, results]).includes(`["element",${i},`)
);

// Makes a buffer for each tensor among a plan's results. Returns the tensors by result, the copies into them, and a
// promise that is rejected if there is not enough memory.
function ownedOutputs(device, plan, outputs, buffers, adopt, read) {
    const copies = [];
    device.pushErrorScope("out-of-memory");
    const tensors = plan.results.map((result, i) => {
        if (result.symint !== undefined) return null;
        const size = wordsOf(count(result.shape) * BYTES[result.stored]);
        const { STORAGE, COPY_SRC, COPY_DST } = GPUBufferUsage;
        const buffer = device.createBuffer({ size: Math.max(size, LEAST_BYTES), usage: STORAGE | COPY_SRC | COPY_DST });
        const [source, , start] = plan.readbacks.find(([, bytes, at]) => at <= result.offset && result.offset < at + bytes) ?? [];
        if (source !== undefined && size) copies.push([buffers[source], adopt(buffer), size, result.offset - start, 0]);
        return GpuTensor.on(device, buffer, result, outputs[i].dtype, read);
    });
    return { tensors, copies, memory: device.popErrorScope().catch(() => null) };
}

// Runs a plan with copies of inputs, or of outputs, on the GPU; with `owned` all outputs stay there. The copies are
// validated in every call: their buffers can be gone.
export async function runOnGpu({ engine, request, device, buffers }, { id, plan, result }, method, values, { owned, finished }) {
    const adopted = [];
    const adopt = (buffer) => adopted[adopted.push(engine.adoptBuffer(buffer)) - 1];
    const read = !owned || plan.faults.length > 0;
    let made = { tensors: [], copies: [] };
    try {
        const before = inputCopies(plan, values, method.inputs, buffers, adopt);
        if (owned) made = ownedOutputs(device, plan, method.outputs, buffers, adopt, reader(engine, request));
        const found = await request(
            (number) => engine.run(number, id, JSON.stringify([before, made.copies]), read, true),
            (bytes) => (read ? finished(bytes ?? result, plan, method, values, owned) : null),
        );
        if (!owned) return found;
        const lacking = await made.memory;
        if (lacking) throw new OutOfMemoryError(lacking.message);
        return made.tensors.map((tensor, i) => tensor ?? evaluate(plan.results[i].symint, values));
    } catch (error) {
        for (const tensor of made.tensors) tensor?.destroy();
        throw translated(error);
    } finally {
        engine.forgetBuffers(JSON.stringify(adopted));
    }
}
