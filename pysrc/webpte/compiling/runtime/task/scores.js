// Labels with scores, of the numbers that a program returns.

const TOP = 5;

export const largest = (values) => values.reduce((a, b) => Math.max(a, b), -Infinity);

function softmax(row) {
    const most = largest(row);
    const raised = Array.from(row, (value) => Math.exp(value - most));
    const total = raised.reduce((a, b) => a + b, 0);
    return raised.map((value) => value / total);
}

export const sigmoid = (value) => 1 / (1 + Math.exp(-value));

// Probabilities stay as they are; other numbers get them by softmax.
function likely(row) {
    const all = Array.from(row);
    return all.every((value) => value >= 0 && value <= 1) ? all : softmax(row);
}

export const FUNCTIONS = { softmax, sigmoid: (row) => Array.from(row, sigmoid), none: (row) => Array.from(row), auto: likely };

// Returns the best labels of a row, by an output of a description.
export function scores({ labels, function: named = "auto" }, [{ data, shape }], { topK = TOP }) {
    const count = shape.at(-1);
    const found = FUNCTIONS[named](data.subarray(0, count)).map((score, i) => ({ label: labels[i] ?? `LABEL_${i}`, score }));
    return { kind: "scores", scores: found.sort((a, b) => b.score - a.score).slice(0, topK ?? undefined) };
}
