// Large files of programs, kept in the origin-private file system: a browser's cache takes no file of such a size.
//
// A kept file has the bytes that were read from the server, at their places, and a table says which: pieces [from, to].

const FOLDER = "webpte-compiled";
const BACKLOG = 256 << 20; // bytes that may wait to be written, before reading waits for the disk

async function folder() {
    const { storage } = globalThis.navigator ?? {};
    if (!storage?.getDirectory || !globalThis.FileSystemFileHandle?.prototype.createWritable || !globalThis.crypto?.subtle) return null;
    try {
        return await (await storage.getDirectory()).getDirectoryHandle(FOLDER, { create: true });
    } catch {
        return null; // private windows, and people, can forbid it
    }
}

async function nameOf(url) {
    const digest = await crypto.subtle.digest("SHA-256", new TextEncoder().encode(String(url)));
    return Array.from(new Uint8Array(digest).subarray(0, 16), (one) => one.toString(16).padStart(2, "0")).join("");
}

// Returns pieces in order, with those that touch joined.
export function joined(pieces) {
    const found = [];
    for (const [from, to] of pieces.toSorted((a, b) => a[0] - b[0])) {
        const last = found.at(-1);
        if (last && from <= last[1]) last[1] = Math.max(last[1], to);
        else found.push([from, to]);
    }
    return found;
}

const isTable = ({ size, etag, modified, pieces }) => (
    Number.isSafeInteger(size) && [etag, modified].every((one) => typeof one === "string")
    && Array.isArray(pieces) && pieces.every(([from, to]) => from >= 0 && from < to && to <= size)
);

// The place of a file: `read` promises { file, size, etag, modified, pieces }, or null; `writer` writes another.
export async function placeOf(url) {
    const place = await folder();
    if (!place) return null;
    const name = await nameOf(url);
    const write = async (file, work) => {
        const out = await (await place.getFileHandle(file, { create: true })).createWritable(); // closing it keeps all or nothing
        try {
            await work(out);
        } catch (error) {
            await out.abort().catch(() => {});
            throw error;
        }
        await out.close();
    };

    return {
        async read() {
            try {
                const table = JSON.parse(await (await (await place.getFileHandle(`${name}.json`)).getFile()).text());
                const file = await (await place.getFileHandle(name)).getFile();
                return isTable(table) && table.pieces.every(([, to]) => to <= file.size) ? { ...table, file } : null;
            } catch {
                return null; // it is not there, or a tab was closed while it was written
            }
        },

        // Returns { take, end }: `take` gets bytes and their offset, and promises to have room for more, if it has to wait;
        // after `end` they are kept. The signal ends writing: nothing is kept then.
        writer({ size, etag, modified }, signal) {
            const pieces = [];
            let waiting = 0;
            const readers = []; // functions that end the wait of each
            const goOn = () => readers.splice(0).forEach((resolve) => resolve());
            let ending;
            const ended = new Promise((resolve, reject) => {
                ending = resolve;
                signal?.addEventListener("abort", () => reject(signal.reason));
            });
            ended.catch(() => {}); // the loop below may not wait for it
            const coming = [];
            let wake = () => {};
            const working = write(name, async (out) => {
                for (let over = false; !over || coming.length;) {
                    if (!coming.length) over = await Promise.race([ended, new Promise((resolve) => { wake = () => resolve(false); })]);
                    while (coming.length) {
                        const [position, data] = coming.shift();
                        await out.write({ type: "write", position, data });
                        waiting -= data.byteLength;
                        pieces.push([position, position + data.byteLength]);
                        if (waiting < BACKLOG) goOn();
                    }
                }
            }).then(() => write(`${name}.json`, (out) => out.write(JSON.stringify({ size, etag, modified, pieces: joined(pieces) }))));
            let closed = false;
            working.catch(() => { // the disk is full, for example
                closed = true;
                goOn();
            });
            return {
                take(offset, bytes) {
                    if (closed) return undefined;
                    coming.push([offset, bytes]);
                    waiting += bytes.byteLength;
                    wake();
                    return waiting < BACKLOG ? undefined : new Promise((resolve) => { readers.push(resolve); });
                },
                end() {
                    closed = true;
                    ending(true);
                    return working.catch(() => {});
                },
            };
        },
    };
}
