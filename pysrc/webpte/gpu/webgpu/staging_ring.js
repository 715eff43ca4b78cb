// How the inputs of a plan go up.
//
// Those of some size go by buffers that are mapped already: a write to the queue copies them once more,
// and the browser's other process has to take that in before it sees the first command (what either takes
// is in docs/performance.md). Such a buffer is mapped again while the call that used it is waited for.
// Evaluates to a function of a device that makes a lift for one plan; `close` it.

((device) => {
    const MAPPED = { from: 1 << 17, to: 1 << 24 }; // bytes that go by a mapped buffer

    function make(nbytes) {
        const usage = GPUBufferUsage.MAP_WRITE | GPUBufferUsage.COPY_SRC;
        return device.createBuffer({ size: Math.ceil(nbytes / 4) * 4, usage, mappedAtCreation: true });
    }

    return () => {
        const free = []; // mapped; all of one size, which is the plan's
        const used = []; // by commands that are not submitted yet
        let closed = false;

        // A mapped buffer, and what is seen of it. Null where there is no memory for one, or the device is lost,
        // which takes what was mapped along: whoever waits for the results is told.
        function take(nbytes) {
            try {
                const buffer = free.pop() ?? make(nbytes);
                return { buffer, seen: new Uint8Array(buffer.getMappedRange()) };
            } catch {
                return null;
            }
        }

        return {
            // `uploads` are a buffer each, and which of the bytes go there.
            raise(uploads, bytes, encoder) {
                const suits = MAPPED.from <= bytes.length && bytes.length <= MAPPED.to;
                const taken = suits ? take(bytes.length) : null;
                if (!taken) {
                    for (const [target, offset, size] of uploads) {
                        device.queue.writeBuffer(target, 0, bytes, offset, size);
                    }
                    return;
                }
                const { buffer, seen } = taken;
                seen.set(bytes);
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
