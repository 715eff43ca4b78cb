// How the dispatches of a plan become commands of the GPU.
//
// Evaluates to a function of a device that gives `makeTape`, `encode` and `encodeTimed`. A plan has
// `dispatches`: a pipeline, a bind group and a grid each.

((device) => {
    // What goes to the queue at once: see docs/performance.md for what it was seen to win.
    const FIRST_PIECE = 32;
    const PIECE = 128;

    // Commands on their way to the queue. With `whole` they go in one piece; otherwise a long plan
    // goes in several, so that the GPU begins while the rest is still being encoded.
    function makeTape(whole) {
        const tape = {
            encoder: device.createCommandEncoder(),
            left: whole ? Infinity : FIRST_PIECE,
            send() {
                device.queue.submit([tape.encoder.finish()]);
            },
            next() {
                tape.send();
                tape.encoder = device.createCommandEncoder();
                tape.left = PIECE;
            },
        };
        return tape;
    }

    function encode(tape, plan) {
        let pass = null;
        let current = null;
        for (const { pipeline, group, x, y, z } of plan.dispatches) {
            if (tape.left === 0) {
                pass?.end();
                pass = null;
                tape.next();
            }
            tape.left--;
            if (!pass) {
                pass = tape.encoder.beginComputePass();
                current = null;
            }
            if (pipeline !== current) pass.setPipeline(current = pipeline);
            pass.setBindGroup(0, group);
            pass.dispatchWorkgroups(x, y, z);
        }
        pass?.end();
    }

    // The same with one pass per dispatch, and the GPU's clock before and after each. Returns
    // what to call when all is submitted: it gives a promise of nanoseconds, one per dispatch.
    function encodeTimed({ encoder }, plan) {
        const count = plan.dispatches.length;
        const perSet = 2048; // WebGPU's limit is 4096 queries in a set
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

    return { makeTape, encode, encodeTimed };
})
