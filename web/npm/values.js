// Values that cross to Python and back: npm/values.py describes the form, and is the other half.

import { InputError } from "./errors.js";
import { pixelsOf } from "./pictures.js";

const TYPES = {
  float32: Float32Array, float64: Float64Array, int8: Int8Array, int16: Int16Array, int32: Int32Array,
  int64: BigInt64Array, uint8: Uint8Array, uint16: Uint16Array, uint32: Uint32Array, uint64: BigUint64Array,
  bool: Uint8Array,
  float16: globalThis.Float16Array ?? Uint16Array, // the bits, where the browser has no such array
};
const NAMES = new Map(Object.entries(TYPES).filter(([name]) => name !== "bool").map(([name, type]) => [type, name]));
NAMES.set(Uint8ClampedArray, "uint8");
NAMES.set(Uint16Array, "uint16");

const OTHERS = { float16: Uint16Array, uint8: Uint8ClampedArray, bool: Uint8ClampedArray }; // arrays that a dtype may also have

const isArray = (value) => ArrayBuffer.isView(value) && NAMES.has(value.constructor);

// An array of elements with a shape: an output of a program, and an input where a flat array does not say enough.
export class Tensor {
  constructor(data, shape, dtype = NAMES.get(data?.constructor)) {
    if (!isArray(data)) throw wrong("a tensor's data is a typed array, such as a Float32Array");
    this.data = data;
    this.shape = [...(shape ?? [data.length])];
    this.dtype = dtype;
    check(data, this.shape, dtype);
  }
}

const wrong = (message) => new InputError(message, { code: "input" });

// Checks that elements are of a dtype, and as many as a shape has (null: none is given).
function check(data, shape, dtype) {
  const type = Object.hasOwn(TYPES, dtype) ? TYPES[dtype] : null;
  if (!type) throw wrong(`no tensor has the dtype ${JSON.stringify(dtype)}; there are ${Object.keys(TYPES).join(", ")}`);
  if (data.constructor !== type && data.constructor !== OTHERS[dtype]) {
    throw wrong(`the elements of a ${data.constructor.name} are not ${dtype}, which needs: ${type.name}`);
  }
  if (!shape) return;
  if (!shape.every((size) => Number.isInteger(size) && size >= 0)) throw wrong(`[${shape}] is not a shape: sizes are whole numbers`);
  const needed = shape.reduce((a, b) => a * b, 1);
  if (data.length !== needed) {
    throw wrong(`a tensor of the shape [${shape.join(", ")}] has ${needed} elements; the ${data.constructor.name} has ${data.length}`);
  }
}

// A tensor in the GPU's memory, in the worker: programs of the same worker take it as an input. Its memory is freed by
// `destroy`, when nothing refers to it any more, or when the program that made it is closed.
export class GpuTensor {
  #connection;
  #handle;

  // buffer  its GPUBuffer, where Python runs in this thread
  constructor(connection, handle, dtype, shape, buffer) {
    this.#connection = connection;
    this.#handle = handle;
    this.buffer = buffer;
    this.dtype = dtype;
    this.shape = shape;
    connection.watch(this, handle);
  }

  encodeFor(connection) {
    if (this.#connection === connection) return { "webpte:gpu": [this.#handle, this.dtype, this.shape, null] };
    throw refused("a GpuTensor of another worker: `await tensor.read()` gives one that can be sent");
  }

  // Copies it out of the GPU's memory, as a Tensor.
  read({ signal } = {}) {
    return this.#connection.call("read", [this.#handle], { signal });
  }

  async destroy() {
    await this.#connection.release(this.#handle);
  }
}

// A result of a task that stays in the worker, for further calls: freed by `close`, or when nothing refers to it any more.
export class Held {
  #connection;
  #handle;

  // told  what Python tells of it, such as a width; a field each
  constructor(connection, handle, told) {
    this.#connection = connection;
    this.#handle = handle;
    Object.assign(this, told);
    connection.watch(this, handle);
  }

  encodeFor(connection) {
    if (this.#connection === connection) return { "webpte:held": [this.#handle, {}] };
    throw refused("a result of another worker, which has it in its own memory");
  }

  async close() {
    await this.#connection.release(this.#handle);
  }
}

// Returns {text, parts}: JSON, and what JSON cannot hold.
export function encode(value, connection) {
  const parts = [];
  const tensor = (data, dtype, shape) => {
    const bytes = new Uint8Array(data.buffer, data.byteOffset, data.byteLength);
    parts.push(bytes.slice()); // a copy of just these bytes, which is moved to the worker
    return { "webpte:tensor": [parts.length - 1, dtype ?? NAMES.get(data.constructor), shape] };
  };
  const part = (one) => ({ "webpte:part": parts.push(one) - 1 });
  const plain = (one, seen) => {
    if (one === null || one === undefined) return null;
    if (typeof one === "string" || typeof one === "boolean") return one;
    if (typeof one === "bigint") return { "webpte:int": String(one) };
    if (typeof one === "number") return Number.isFinite(one) ? one : { "webpte:float": String(one) };
    if (isArray(one)) return tensor(one, undefined, null);
    if (one instanceof GpuTensor || one instanceof Held) return one.encodeFor(connection);
    if (globalThis.GPUBuffer && one instanceof GPUBuffer) {
      if (!connection.sharesThread) {
        throw refused("a GPUBuffer cannot leave the thread of its device, and webpte runs in a worker of its own; "
          + "give a typed array or a GpuTensor, or run webpte in a worker of yours (webpte/here)");
      }
      return part(one);
    }
    if (one instanceof Blob) return part(one);
    if (one instanceof URL) return one.href;
    const pixels = pixelsOf(one);
    if (pixels) return tensor(pixels.data, "uint8", pixels.shape);
    if (isArray(one.data) && (Array.isArray(one.shape) || one.shape === undefined)) {
      check(one.data, one.shape, one.dtype ?? NAMES.get(one.data.constructor));
      return tensor(one.data, one.dtype, one.shape ?? null);
    }
    if (seen.includes(one)) throw refused("an object that contains itself");
    if (Array.isArray(one)) return one.map((item) => plain(item, [...seen, one]));
    const prototype = Object.getPrototypeOf(one);
    if (prototype !== null && prototype.constructor?.name !== "Object") throw refused(`a ${prototype.constructor?.name}`);
    return Object.fromEntries(Object.entries(one)
      .filter(([, item]) => item !== undefined)
      .map(([key, item]) => [key, plain(item, [...seen, one])]));
  };
  return { text: JSON.stringify(plain(value, [])), parts };
}

const refused = (what) => new InputError(`it cannot be sent to webpte: ${what}`, { code: "input" });

export function decode(text, parts, connection) {
  return JSON.parse(text, (_, one) => {
    if (one === null || typeof one !== "object") return one;
    if ("webpte:int" in one) return BigInt(one["webpte:int"]);
    if ("webpte:float" in one) return Number(one["webpte:float"]);
    if ("webpte:tensor" in one) {
      const [at, dtype, shape] = one["webpte:tensor"];
      return new Tensor(new TYPES[dtype](parts[at].buffer), shape, dtype);
    }
    if ("webpte:gpu" in one) {
      const [handle, dtype, shape, at] = one["webpte:gpu"];
      return new GpuTensor(connection, handle, dtype, shape, parts[at]);
    }
    if ("webpte:held" in one) return new Held(connection, ...one["webpte:held"]);
    if ("webpte:part" in one) return parts[one["webpte:part"]];
    return one;
  });
}
