// Integers of a call, computed from its inputs: see compiling/expressions.py.

import { FormatError, InputError, ResizeError } from "./errors.js";

const MOST_DEPTH = 200;
const ARITHMETIC = {
    add: (a, b) => a + b,
    sub: (a, b) => a - b,
    mul: (a, b) => a * b,
    floordiv: (a, b) => {
        if (b === 0) throw new InputError(`${a} is divided by zero`);
        return Math.floor(a / b);
    },
};

// Checks an expression of a description with so many inputs.
export function checkExpression(expression, inputs, depth = 0) {
    if (Number.isSafeInteger(expression)) return;
    const [kind, a, b] = Array.isArray(expression) ? expression : [];
    const isInput = Number.isInteger(a) && a >= 0 && a < inputs;
    if (kind === "number" && isInput) return;
    if (kind === "element" && isInput && Number.isSafeInteger(b) && b >= 0) return;
    if (!Object.hasOwn(ARITHMETIC, kind) || depth > MOST_DEPTH) {
        throw new FormatError(`${JSON.stringify(expression)?.slice(0, 80)} is not an expression`);
    }
    checkExpression(a, inputs, depth + 1);
    checkExpression(b, inputs, depth + 1);
}

// Computes an expression of the checked inputs of a call.
export function evaluate(expression, values) {
    if (typeof expression === "number") return expression;
    const [kind, a, b] = expression;
    const result = kind === "number" ? values[a].number
        : kind === "element" ? Number(values[a].data[b])
            : ARITHMETIC[kind](evaluate(a, values), evaluate(b, values));
    if (result !== (result | 0)) throw new ResizeError(`${result} does not fit into 32 bits`);
    return result;
}
