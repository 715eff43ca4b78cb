// Tensors as typed arrays, and their elements as the GPU stores them.
//
// A tensor has a declared dtype, and a stored one on the GPU: 64-bit integers are stored in 32 bits, float16 as float32
// where shaders have no f16. Values of bfloat16 are float32 on both sides, rounded.

import { InputError } from "./errors.js";

const Half = globalThis.Float16Array;

// The typed array of each dtype; of float16 the bits, where the browser has no Float16Array.
export const ARRAYS = {
    float32: Float32Array, float64: Float64Array, bfloat16: Float32Array, float16: Half ?? Uint16Array,
    int8: Int8Array, int16: Int16Array, int32: Int32Array, int64: BigInt64Array, uint8: Uint8Array, bool: Uint8Array,
};

export const BYTES = { bool: 1, uint8: 1, int8: 1, int32: 4, float32: 4, float16: 2 }; // of stored elements

// Other arrays that a dtype takes, whose every value it has.
const ALSO = {
    float16: [Uint16Array], uint8: [Uint8ClampedArray], int16: [Int8Array, Uint8Array],
    int32: [Int8Array, Uint8Array, Int16Array, Uint16Array],
    int64: [Int8Array, Uint8Array, Int16Array, Uint16Array, Int32Array, Uint32Array],
};

// Elements with a shape: each output, and an input where a flat array does not say enough.
export class Tensor {
    constructor(data, shape = [data.length], dtype = undefined) {
        Object.assign(this, { data, shape: [...shape], dtype });
    }
}

export const count = (shape) => shape.reduce((a, b) => a * b, 1);

const word = new Uint32Array(1);
const floats = new Float32Array(word.buffer);

function halfToFloat(half) {
    const sign = half & 0x8000 ? -1 : 1;
    const exponent = (half >> 10) & 31;
    const fraction = half & 1023;
    if (exponent === 31) return fraction ? NaN : sign * Infinity;
    return sign * (exponent ? 2 ** (exponent - 15) * (1 + fraction / 1024) : fraction * 2 ** -24);
}

// Rounds to nearest even, as all conversions here do.
function floatToHalf(value) {
    floats[0] = value;
    const sign = (word[0] >>> 16) & 0x8000;
    const size = Math.abs(floats[0]);
    if (Number.isNaN(size)) return sign | 0x7c00 | (((word[0] >>> 13) & 1023) || 1);
    if (size >= 65520) return sign | 0x7c00;
    const exponent = Math.max(-14, Math.floor(Math.log2(size || 1)));
    const unit = 2 ** (exponent - 10);
    const low = Math.floor(size / unit);
    const over = size / unit - low;
    const whole = low + (over > 0.5 || (over === 0.5 && low % 2) ? 1 : 0);
    return sign | (whole + (size < 2 ** -14 ? 0 : (exponent + 14) * 1024));
}

function roundToBfloat16(value) {
    floats[0] = value;
    word[0] = Number.isNaN(value) ? (word[0] | 0x400000) & 0xffff0000
        : (word[0] + 0x7fff + ((word[0] >>> 16) & 1)) & 0xffff0000;
    return floats[0];
}

const isBits = (array) => array instanceof Uint16Array;

// Returns an array's elements as a dtype's: rounded, wrapped or widened.
function cast(array, from, to) {
    if (from === to) return array;
    if (to === "float16") {
        const bits = Uint16Array.from(array, floatToHalf);
        return Half ? new Half(bits.buffer) : bits;
    }
    const plain = from === "float16" && isBits(array) ? Float32Array.from(array, halfToFloat) : array;
    if (to === "bfloat16") return Float32Array.from(plain, roundToBfloat16);
    if (to === "int64") return BigInt64Array.from(plain, BigInt);
    if (from === "int64") return ARRAYS[to].from(plain, (value) => Number(BigInt.asIntN(32, value)));
    return to === "bool" ? Uint8Array.from(plain, Boolean) : ARRAYS[to].from(plain);
}

// Checks an input, and returns its { data, shape, dtype }. A flat array takes the shape of an input that has only one.
export function checked(value, info, where, shapes) {
    const data = ArrayBuffer.isView(value) ? value : value?.data;
    const wanted = [ARRAYS[info.dtype], ...(ALSO[info.dtype] ?? [])];
    if (!wanted.includes(data?.constructor)) {
        const given = data?.constructor?.name ?? typeof value;
        throw new InputError(`${where}: ${info.dtype} needs a ${wanted[0].name}, not a ${given}`);
    }
    const only = shapes.length === 1 ? shapes[0] : null;
    const shape = value.shape ?? only ?? [data.length];
    if (count(shape) !== data.length) {
        throw new InputError(`${where}: the shape [${shape}] has ${count(shape)} elements, and ${data.length} were given`);
    }
    return { data, shape: [...shape] };
}

// Writes an input's elements to their place in the bytes that are uploaded.
export function pack(data, info, stored, bytes, offset, where) {
    const size = data.length;
    const place = new (ARRAYS[stored])(bytes.buffer, bytes.byteOffset + offset, size);
    if (info.dtype === "int64" && data instanceof BigInt64Array) {
        for (let i = 0; i < size; i++) {
            if (data[i] !== BigInt.asIntN(32, data[i])) throw new InputError(`${where}: ${data[i]} does not fit into 32 bits`);
            place[i] = Number(data[i]);
        }
    } else if (info.dtype === "int64" && data instanceof Uint32Array && data.some((value) => value > 0x7fffffff)) {
        throw new InputError(`${where}: values do not fit into 32 bits`);
    } else if (info.dtype === "float16" && stored === "float16") {
        new Uint16Array(bytes.buffer, bytes.byteOffset + offset, size).set(new Uint16Array(data.buffer, data.byteOffset, size));
    } else {
        const { dtype } = info;
        const same = dtype === "bool" || dtype === "bfloat16" || (dtype === "float16" && isBits(data)) || stored === "float16";
        if (!same) place.set(data);
        else if (dtype === "bool") data.forEach((value, i) => { place[i] = value ? 1 : 0; });
        else if (dtype === "bfloat16") data.forEach((value, i) => { place[i] = roundToBfloat16(value); });
        else place.set(cast(data, dtype, stored));
    }
}

// Returns an output from the bytes that were read back.
export function unpack(bytes, result, declared) {
    const size = count(result.shape);
    const { stored, offset } = result;
    const start = bytes.byteOffset + offset;
    const raw = new (ARRAYS[stored])(bytes.buffer.slice(start, start + size * BYTES[stored]));
    return new Tensor(cast(cast(raw, stored, result.dtype), result.dtype, declared), result.shape, declared);
}
