// How the inputs of a plan go up.
//
// Those of some size go by buffers that are mapped already: a write to the queue copies them once more,
// and the browser's other process has to take that in before it sees the first command (what either takes
// is in docs/performance.md). Such a buffer is mapped again while the call that used it is waited for.
// Evaluates to a function of a device that makes a lift for one plan; `close` it.

((device) => {
    const MAPPED = { from: 1 << 17, to: 1 << 24 }; // bytes that go by a mapped buffer

    // A mapped buffer; null where there is no memory for one.
    function make(nbytes) {
        const usage = GPUBufferUsage.MAP_WRITE | GPUBufferUsage.COPY_SRC;
        try {
            return device.createBuffer({ size: Math.ceil(nbytes / 4) * 4, usage, mappedAtCreation: true });
        } catch {
            return null;
        }
    }

    return () => {
        const free = []; // mapped; all of one size, which is the plan's
        const used = []; // by commands that are not submitted yet
        let closed = false;

        return {
            // `uploads` are a buffer each, and which of the bytes go there.
            raise(uploads, bytes, encoder) {
                const suits = MAPPED.from <= bytes.length && bytes.length <= MAPPED.to;
                const buffer = suits ? free.pop() ?? make(bytes.length) : null;
                if (!buffer) {
                    for (const [target, offset, size] of uploads) {
                        device.queue.writeBuffer(target, 0, bytes, offset, size);
                    }
                    return;
                }
                new Uint8Array(buffer.getMappedRange()).set(bytes);
                buffer.unmap();
                used.push(buffer);
                for (const [target, offset, size] of uploads) {
                    encoder.copyBufferToBuffer(buffer, offset, target, 0, size);
                }
            },

            // When the commands were submitted.
            sent() {
                for (const buffer of used.splice(0)) {
                    buffer.mapAsync(GPUMapMode.WRITE).then(
                        () => { if (closed) buffer.destroy(); else free.push(buffer); },
                        () => buffer.destroy(),
                    );
                }
            },

            close() {
                closed = true;
                for (const buffer of [...free.splice(0), ...used.splice(0)]) buffer.destroy();
            },
        };
    };
})
