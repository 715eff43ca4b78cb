// Large files on servers: they are read in ranges, while they are uploaded, and are never in memory as a whole. Requests
// that fail are repeated. Of a server without ranges the file is collected first.

import { translated } from "./errors.js";
import files from "../../engine/browser/files.js";
import retry from "../../engine/browser/retry.js";
import makeDownloads from "../../engine/browser/downloads.js";

const { makeControl, openUrl } = makeDownloads(files, retry);

// Opens a file, as `files.blobFile` does a Blob.
export async function opened(url, signal) {
    try {
        return await openUrl(String(url), makeControl(), null, signal);
    } catch (error) {
        signal?.throwIfAborted();
        throw translated(Object.assign(new Error(`${url}: ${error.message}`, { cause: error }), { name: error.name }));
    }
}
