// The JavaScript half of engine/browser/files.py: files that are read in parts, never as a whole.
//
// Evaluates to an object with the functions that Python uses. A file has a `size`, and functions
//     read(offset, length, signal)   a promise of an ArrayBuffer
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

    return {
        blobFile,

        // Holds a reader until it is released.
        hold(reader) {
            reading.add(reader);
            return reader;
        },

        release: (reader) => reading.delete(reader),

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
