// Large files on servers: they are read in ranges, while they are uploaded, and are never in memory as a whole. Requests
// that fail are repeated. Of a server without ranges the file is collected first. What was read is kept for the next visit,
// which asks the server whether the file is the same; without an answer, it is.

import { translated } from "./errors.js";
import { placeOf } from "./kept.js";
import files from "../../engine/browser/files.js";
import retry from "../../engine/browser/retry.js";
import makeDownloads from "../../engine/browser/downloads.js";

const PATIENCE = 5; // seconds to wait for a server that has to say whether a kept file is the same

const { ask, fileOf, makeControl } = makeDownloads(files, retry);

// A file of which some pieces are kept, and the others come from the server.
function keptFile({ file, size, pieces }, rest) {
    const kept = files.blobFile(file);
    const has = (offset, length) => pieces.some(([from, to]) => from <= offset && offset + length <= to);
    const choose = async (offset, length) => (has(offset, length) ? kept : rest());
    return {
        size,
        read: async (offset, length, signal) => (await choose(offset, length)).read(offset, length, signal),
        open: async (offset, length, signal) => (await choose(offset, length)).open(offset, length, signal),
    };
}

// Opens a file, as `files.blobFile` does a Blob; of a file that is not kept yet, `keep` has to be called when all was read.
async function openedFile(url, signal, keep) {
    const control = makeControl();
    const place = keep ? await placeOf(url) : null;
    const known = await place?.read();
    const isMarked = known && (known.etag || known.modified);
    const told = isMarked ? await ask(url, control, { known, signal, patience: PATIENCE }).catch(() => ({ same: true })) : null;
    if (told?.same) return keptFile(known, async () => fileOf(url, await ask(url, control, { signal }), control));
    const answer = told ?? await ask(url, control, { signal });
    const { marks, size, first } = answer;
    if (!place || !first) return fileOf(url, answer, control);
    const writer = place.writer({ size, ...marks }, signal);
    writer.take(0, first.bytes);
    const store = { pieceAt: () => undefined, nextAfter: () => Infinity, lose() {}, take: writer.take };
    return { ...fileOf(url, answer, control, { store }), keep: writer.end };
}

export async function opened(url, signal, keep = true) {
    try {
        return await openedFile(String(url), signal, keep);
    } catch (error) {
        signal?.throwIfAborted();
        throw translated(Object.assign(new Error(`${url}: ${error.message}`, { cause: error }), { name: error.name }));
    }
}
