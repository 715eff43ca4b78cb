// The JavaScript half of gpu/files.py: files that are read in parts and never as a whole.
//
// Evaluates to an object with the functions that Python uses. A file has a `size`, and a function
// `read(offset, length)` that gives a promise of an ArrayBuffer.

({
    // A file by URL. Where the server answers ranges, only the parts that are read are fetched;
    // otherwise the whole of it is collected into a Blob, which the browser keeps out of the heap.
    async openUrl(url, progress) {
        const head = await fetch(url, { headers: { Range: "bytes=0-65535" } });
        if (head.status === 416) return this.blobFile(new Blob([])); // the range of an empty file
        if (!head.ok) throw new Error(`the server answered ${head.status} ${head.statusText}`);
        const size = Number(/\/(\d+)$/.exec(head.headers.get("Content-Range") ?? "")?.[1] ?? NaN);
        if (head.status === 206 && Number.isSafeInteger(size)) {
            return rangeFile(url, size, await head.arrayBuffer());
        }
        const response = head.status === 206 ? await fetch(url) : head;
        if (!response.ok) throw new Error(`the server answered ${response.status} ${response.statusText}`);
        return this.blobFile(await collect(response));

        async function collect(response) {
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

        function rangeFile(url, size, head) {
            return {
                size,
                async read(offset, length) {
                    if (offset + length <= head.byteLength) return head.slice(offset, offset + length);
                    const range = `bytes=${offset}-${offset + length - 1}`;
                    const response = await fetch(url, { headers: { Range: range } });
                    const bytes = await response.arrayBuffer();
                    if (response.status !== 206 || bytes.byteLength !== length) {
                        throw new Error(`the server answered ${response.status} with ${bytes.byteLength} bytes to ${range}`);
                    }
                    return bytes;
                },
            };
        }
    },

    blobFile(blob) {
        return { size: blob.size, read: (offset, length) => blob.slice(offset, offset + length).arrayBuffer() };
    },

    bytesFile(bytes) {
        const view = bytes.getBuffer("u8");
        try {
            return this.blobFile(new Blob([view.data])); // a copy: the Python object may go away
        } finally {
            view.release();
        }
    },
})
