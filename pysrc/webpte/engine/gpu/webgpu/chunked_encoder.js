// Encodes the dispatches of a plan as GPU commands, and submits long plans in chunks.
//
// Evaluates to a function of a device that returns `makeChunkedEncoder`, `encode`, `encodeTimed` and `sliceOf`.
// A plan has `dispatches`, each with a pipeline, a bind group and a grid.

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

    // Encodes one pass per dispatch, with a timestamp before and after each. Returns a function to call
    // after the submission; it promises the nanoseconds of each dispatch.
    function encodeTimed({ encoder }, plan) {
        const count = plan.dispatches.length;
        const perSet = 2048; // dispatches per query set: WebGPU allows 4096 queries
        const usage = GPUBufferUsage.QUERY_RESOLVE | GPUBufferUsage.COPY_SRC;
        const resolved = device.createBuffer({ size: Math.max(16 * count, 16), usage });
        const staging = device.createBuffer({
            size: resolved.size, usage: GPUBufferUsage.MAP_READ | GPUBufferUsage.COPY_DST,
        });
        const querySets = [];
        for (let start = 0; start < count; start += perSet) {
            const part = plan.dispatches.slice(start, start + perSet);
            const querySet = device.createQuerySet({ type: "timestamp", count: 2 * part.length });
            querySets.push(querySet);
            part.forEach(({ pipeline, group, x, y, z }, i) => {
                const timestampWrites = { querySet, beginningOfPassWriteIndex: 2 * i, endOfPassWriteIndex: 2 * i + 1 };
                const pass = encoder.beginComputePass({ timestampWrites });
                pass.setPipeline(pipeline);
                pass.setBindGroup(0, group);
                pass.dispatchWorkgroups(x, y, z);
                pass.end();
            });
            encoder.resolveQuerySet(querySet, 0, 2 * part.length, resolved, 16 * start);
        }
        encoder.copyBufferToBuffer(resolved, 0, staging, 0, resolved.size);
        return async () => {
            try {
                await staging.mapAsync(GPUMapMode.READ);
                const stamps = new BigUint64Array(staging.getMappedRange());
                return plan.dispatches.map((_, i) => Number(stamps[2 * i + 1] - stamps[2 * i]));
            } finally {
                for (const object of [staging, resolved, ...querySets]) object.destroy();
            }
        };
    }

    return { makeChunkedEncoder, encode, encodeTimed, sliceOf };
})
