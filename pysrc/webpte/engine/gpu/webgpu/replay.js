// The parts of a plan's replay: its inputs on their way to the GPU, its dispatches as commands, its bytes in Python.
//
// Evaluates to a function of a device that returns `makeChunkedEncoder`, `encode`, `sliceOf`, `makeStagingRing` and
// `makeHeapView`. A plan has `dispatches`, each with a pipeline, a bind group and a grid. Long plans are submitted in
// chunks.

((device) => {
    // Dispatches per submission; docs/inside/experiments.md has the measured gain.
    const FIRST_CHUNK = 32;
    const CHUNK = 128;

    // A command encoder that submits a long plan in several chunks, so that the GPU starts while the
    // rest is still being encoded. With `whole` everything is one submission.
    function makeChunkedEncoder(whole) {
        const chunked = {
            encoder: device.createCommandEncoder(),
            left: whole ? Infinity : FIRST_CHUNK, // dispatches that still fit into this chunk
            submit() {
                device.queue.submit([chunked.encoder.finish()]);
            },
            next() {
                chunked.submit();
                chunked.encoder = device.createCommandEncoder();
                chunked.left = CHUNK;
            },
        };
        return chunked;
    }

    // A range of a plan's dispatches, by default all.
    function sliceOf({ dispatches }, first = 0, end = dispatches.length) {
        return { first, end, isFirst: first === 0, isLast: end === dispatches.length };
    }

    // Encodes the dispatches of a slice.
    function encode(chunked, plan, { first, end } = sliceOf(plan)) {
        let pass = null;
        let current = null;
        for (let at = first; at < end; at++) {
            const { pipeline, group, x, y, z } = plan.dispatches[at];
            if (chunked.left === 0) {
                pass?.end();
                pass = null;
                chunked.next();
            }
            chunked.left--;
            if (!pass) {
                pass = chunked.encoder.beginComputePass();
                current = null;
            }
            if (pipeline !== current) pass.setPipeline(current = pipeline);
            pass.setBindGroup(0, group);
            pass.dispatchWorkgroups(x, y, z);
        }
        pass?.end();
    }

    const MAPPED = { from: 1 << 17, to: 1 << 24 }; // payload sizes that use a staging buffer

    function createMapped(nbytes) {
        const usage = GPUBufferUsage.MAP_WRITE | GPUBufferUsage.COPY_SRC;
        return device.createBuffer({ size: Math.ceil(nbytes / 4) * 4, usage, mappedAtCreation: true });
    }

    // Uploads the inputs of a plan; a plan has one ring. `close` it.
    //
    // Large inputs go through staging buffers that are already mapped: `writeBuffer` would copy them once more,
    // and the GPU process would have to receive that copy before it sees the first command
    // (docs/inside/experiments.md has both times). A used staging buffer is mapped again while its run is waited for.
    function makeStagingRing() {
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
            // Uploads parts of a payload; `uploads` has rows of target buffer, offset in the payload and size.
            upload(uploads, payload, encoder) {
                const staged = MAPPED.from <= payload.size && payload.size <= MAPPED.to;
                const taken = staged ? take(payload.size) : null;
                if (!taken) {
                    const bytes = payload.bytes();
                    for (const [target, offset, size] of uploads) {
                        device.queue.writeBuffer(target, 0, bytes, offset, size);
                    }
                    return;
                }
                const { buffer, mapped } = taken;
                try {
                    payload.writeTo(mapped);
                } catch (error) {
                    buffer.destroy();
                    throw error;
                }
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
    }

    // A lasting view of a NumPy array's bytes in Python's WASM heap. `close` it.
    //
    // Getting an array's buffer crosses to Python, so a plan that needs the bytes in every run gets it once.
    function makeHeapView(array) {
        const owner = array.copy(); // Pyodide destroys the argument's proxy when the call returns
        let view = owner.getBuffer("u8");
        // The current bytes. When the WASM heap grows, every older view of it becomes empty and is renewed.
        const bytes = () => {
            if (!view.data.byteLength) {
                view.release();
                view = owner.getBuffer("u8");
            }
            return view.data;
        };
        return {
            size: view.data.byteLength,
            bytes,
            writeTo: (target) => target.set(bytes()),

            close() {
                view.release();
                owner.destroy();
            },
        };
    }

    return { makeChunkedEncoder, encode, sliceOf, makeStagingRing, makeHeapView };
})
