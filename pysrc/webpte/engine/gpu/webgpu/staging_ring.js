// Uploads the inputs of a plan.
//
// Large inputs go through staging buffers that are already mapped: `writeBuffer` would copy them once more,
// and the GPU process would have to receive that copy before it sees the first command (docs/inside/experiments.md
// has both times). A used staging buffer is mapped again while its run is waited for.
// Evaluates to a function of a device that returns `makeStagingRing`; a plan has one ring. `close` it.

((device) => {
    const MAPPED = { from: 1 << 17, to: 1 << 24 }; // payload sizes that use a staging buffer

    function createMapped(nbytes) {
        const usage = GPUBufferUsage.MAP_WRITE | GPUBufferUsage.COPY_SRC;
        return device.createBuffer({ size: Math.ceil(nbytes / 4) * 4, usage, mappedAtCreation: true });
    }

    return function makeStagingRing() {
        const free = []; // mapped, all of the plan's payload size
        const used = []; // by commands that are not submitted yet, unmapped
        let closed = false;

        // A mapped buffer and its bytes. Null if there is no memory for one, or if the device is lost, which
        // also unmaps the free ones; the error then comes with the results of the run.
        function take(nbytes) {
            try {
                const buffer = free.pop() ?? createMapped(nbytes);
                return { buffer, mapped: new Uint8Array(buffer.getMappedRange()) };
            } catch {
                return null;
            }
        }

        return {
            // Uploads parts of `bytes`; `uploads` has rows of target buffer, offset in `bytes` and size.
            upload(uploads, bytes, encoder) {
                const staged = MAPPED.from <= bytes.length && bytes.length <= MAPPED.to;
                const taken = staged ? take(bytes.length) : null;
                if (!taken) {
                    for (const [target, offset, size] of uploads) {
                        device.queue.writeBuffer(target, 0, bytes, offset, size);
                    }
                    return;
                }
                const { buffer, mapped } = taken;
                mapped.set(bytes);
                buffer.unmap();
                used.push(buffer);
                for (const [target, offset, size] of uploads) {
                    encoder.copyBufferToBuffer(buffer, offset, target, 0, size);
                }
            },

            // Maps the used buffers again. To be called after the commands were submitted.
            recycle() {
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
