// Floats as a method takes them.

// Returns an input of floats in a dtype.
export function typed({ data, shape }, dtype) {
    if (dtype === "float16" && globalThis.Float16Array) return { data: globalThis.Float16Array.from(data), shape };
    return { data: dtype === "float64" ? Float64Array.from(data) : data, shape };
}
