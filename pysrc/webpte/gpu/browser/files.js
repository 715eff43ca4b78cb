// The JavaScript half of gpu/browser/files.py: files that are read in parts, never as a whole.
//
// Evaluates to an object with the functions that Python uses. A file has a `size`, and functions
//     read(offset, length)           a promise of an ArrayBuffer
//     open(offset, length, signal)   a promise of a source that is read in steps, like a BYOB reader:
//                                    `read(view)` promises { value, done }, where `value` is in the
//                                    memory of `view`, or is everything at once in memory of its own

(() => {
    // Readers in use. A browser garbage-collects a Blob's stream that is referenced only by the promise of
    // its next bytes, and that promise then never settles.
    const reading = new Set();

    // Reads a byte stream in steps; where the browser has no byte streams, `whole()` at once.
    function sourceOf(body, whole, signal) {
        let reader;
        try {
            reader = body.getReader({ mode: "byob" });
        } catch {
            return sourceOfAll(whole);
        }
        reading.add(reader);
        signal.addEventListener("abort", () => {
            reading.delete(reader);
            reader.cancel().catch(() => {});
        });
        return {
            async read(view) {
                let ended = true;
                try {
                    const step = await reader.read(view);
                    ended = step.done;
                    return step;
                } finally {
                    if (ended) reading.delete(reader);
                }
            },
        };
    }

    function sourceOfAll(whole) {
        let given = false;
        return {
            async read() {
                if (given) return { done: true };
                given = true;
                return { value: new Uint8Array(await whole()), done: false };
            },
        };
    }

    async function collect(response, progress) {
        const total = Number(response.headers.get("Content-Length") ?? 0);
        const chunks = [];
        let done = 0;
        for (const reader = response.body.getReader(); ;) {
            const { value, done: ended } = await reader.read();
            if (ended) return new Blob(chunks);
            chunks.push(value);
            done += value.byteLength;
            progress?.("fetch", done, Math.max(total, done));
        }
    }

    // The mark of a file's version, if its server sends one.
    const versionOf = (response) => response.headers.get("ETag") ?? response.headers.get("Last-Modified");

    const RANGE = /^bytes (?:(\d+)-\d+|\*)\/(\d+)$/; // the first byte of a response, and the file's size

    // `head` has the file's first bytes, which are there already. `heard(offset, bytes)` is called with all
    // bytes that are read from the server; their memory is reused afterwards.
    function rangeFile(url, size, head, version, heard) {
        const isThere = (offset, length) => offset + length <= head.byteLength;
        async function ask(offset, length, signal) {
            const range = `bytes=${offset}-${offset + length - 1}`;
            const response = await fetch(url, { headers: { Range: range }, signal });
            if (response.status !== 206) throw new Error(`the server answered ${response.status} to ${range}`);
            const [, first = offset, total = size] = RANGE.exec(response.headers.get("Content-Range") ?? "") ?? [];
            if (Number(first) !== offset) throw new Error(`the server answered ${range} with bytes from ${first} on`);
            const renewed = version && versionOf(response) && versionOf(response) !== version;
            if (renewed || Number(total) !== size) {
                throw new Error("the file changed on its server while it was being read; open it again");
            }
            return response;
        }
        return {
            size,
            async read(offset, length) {
                if (isThere(offset, length)) return head.slice(offset, offset + length);
                const bytes = await (await ask(offset, length)).arrayBuffer();
                if (bytes.byteLength !== length) {
                    throw new Error(`received ${bytes.byteLength} of ${length} bytes from byte ${offset} on`);
                }
                heard?.(offset, new Uint8Array(bytes));
                return bytes;
            },
            async open(offset, length, signal) {
                if (isThere(offset, length)) return sourceOfAll(() => head.slice(offset, offset + length));
                const response = await ask(offset, length, signal);
                const source = sourceOf(response.body, () => response.arrayBuffer(), signal);
                return heard ? overheard(source, offset, heard) : source;
            },
        };
    }

    function overheard(source, offset, heard) {
        return {
            async read(view) {
                const step = await source.read(view);
                if (step.value) {
                    heard(offset, step.value);
                    offset += step.value.byteLength;
                }
                return step;
            },
        };
    }

    function blobFile(blob) {
        const part = (offset, length) => blob.slice(offset, offset + length);
        return {
            size: blob.size,
            read: (offset, length) => part(offset, length).arrayBuffer(),
            async open(offset, length, signal) {
                const bytes = part(offset, length);
                return sourceOf(bytes.stream(), () => bytes.arrayBuffer(), signal);
            },
        };
    }

    // Requests a file's first bytes; a server that answers ranges also sends the file's size.
    const HEAD = { Range: "bytes=0-65535" };

    // Opens the file whose response to `HEAD` is `head`. `heard` is only called for servers that answer
    // ranges; from others the whole file is collected into a Blob, which is outside the JavaScript heap.
    async function openAnswer(url, head, progress, heard) {
        if (head.status === 416) return blobFile(new Blob([])); // the range of an empty file
        if (!head.ok) throw new Error(`the server answered ${head.status} ${head.statusText}`);
        const size = Number(RANGE.exec(head.headers.get("Content-Range") ?? "")?.[2] ?? NaN);
        if (head.status === 206 && Number.isSafeInteger(size)) {
            return rangeFile(url, size, await head.arrayBuffer(), versionOf(head), heard);
        }
        const response = head.status === 206 ? await fetch(url) : head;
        if (!response.ok) throw new Error(`the server answered ${response.status} ${response.statusText}`);
        return blobFile(await collect(response, progress));
    }

    return {
        HEAD,
        blobFile,
        openAnswer,

        // Opens a URL. If the server answers ranges, only the parts that are read are fetched.
        async openUrl(url, progress) {
            return openAnswer(url, await fetch(url, { headers: HEAD }), progress);
        },

        bytesFile(bytes) {
            const view = bytes.getBuffer("u8");
            try {
                return blobFile(new Blob([view.data])); // a copy: the Python object may go away
            } finally {
                view.release();
            }
        },
    };
})()
