// The self-test of a GPU's features, before a program relies on them: a compiled program whose results are known.

import { fetched } from "./program.js";
import { translated } from "./errors.js";

const bytesOf = (text) => Uint8Array.from(atob(text), (one) => one.charCodeAt(0));

const hasBytes = (bytes, expected) => expected.every((value, i) => value === bytes[i]);

async function passes(base, { test: file, features, limits }, openRow) {
    const { given, expected } = await fetched(new URL(file, base), "json");
    let program = null;
    try {
        program = await openRow({ file, features, limits }, { onProgress: undefined });
        const [{ data }] = await program.run("test", [bytesOf(given)]);
        return expected.every(([, offset, text]) => hasBytes(data.subarray(offset), bytesOf(text)));
    } catch (error) {
        if (translated(error).name === "ShaderError") return false;
        throw error;
    } finally {
        program?.close();
    }
}

// Opens the program of a row of descriptions while its test runs; null if a feature that it needs is faulty here.
export async function openTested(base, row, openRow) {
    const opening = openRow(row);
    opening.catch(() => {}); // awaited below
    let isFine = false;
    try {
        isFine = await passes(base, row, openRow);
        return isFine ? await opening : null;
    } finally {
        if (!isFine) opening.then((program) => program.close(), () => {});
    }
}
