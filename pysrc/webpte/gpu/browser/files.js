// The JavaScript half of gpu/browser/files.py: files that are read in parts and never as a whole.
//
// Evaluates to an object with the functions that Python uses. A file has a `size`, and functions
//     read(offset, length)           a promise of an ArrayBuffer
//     open(offset, length, signal)   a promise of a source, to be read by and by like a BYOB reader:
//                                    `read(view)` promises { value, done }, where `value` is in the
//                                    memory that `view` had, or everything in memory of its own

(() => {
    // What is being read. A browser throws away a stream of a Blob that nobody knows but who waits for its
    // next bytes, and those never come.
    const reading = new Set();

    // Bytes as they come, where the browser has byte streams; otherwise `whole()` of them at once.
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

    // What tells one version of a file from the next, if its server says.
    const versionOf = (response) => response.headers.get("ETag") ?? response.headers.get("Last-Modified");

    const RANGE = /^bytes (?:(\d+)-\d+|\*)\/(\d+)$/; // the first byte of an answer, and the size of the whole file

    // `head` is the beginning of the file, which is there already. `heard(offset, bytes)` is told of all
    // that comes after it; the memory of the bytes is used again.
    function rangeFile(url, size, head, version, heard) {
        const isThere = (offset, length) => offset + length <= head.byteLength;
        async function ask(offset, length, signal) {
            const range = `bytes=${offset}-${offset + length - 1}`;
            const response = await fetch(url, { headers: { Range: range }, signal });
            if (response.status !== 206) throw new Error(`the server answered ${response.status} to ${range}`);
            const [, first = offset, total = size] = RANGE.exec(response.headers.get("Content-Range") ?? "") ?? [];
            if (Number(first) !== offset) throw new Error(`the server answered from byte ${first} on to ${range}`);
            const renewed = version && versionOf(response) && versionOf(response) !== version;
            if (renewed || Number(total) !== size) {
                throw new Error("the file was changed on its server while it was read; open it again");
            }
            return response;
        }
        return {
            size,
            async read(offset, length) {
                if (isThere(offset, length)) return head.slice(offset, offset + length);
                const bytes = await (await ask(offset, length)).arrayBuffer();
                if (bytes.byteLength !== length) {
                    throw new Error(`${bytes.byteLength} bytes came of the ${length} from byte ${offset} on`);
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

    // The beginning of a file, with the size of all of it where the server tells.
    const HEAD = { Range: "bytes=0-65535" };

    // What the answer to a request for `HEAD` is the beginning of. `heard` is for servers with ranges;
    // of others the whole file is collected into a Blob, which the browser keeps out of the heap.
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

        // A file by URL. Where the server answers ranges, only the parts that are read are fetched.
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
