// Times the dispatches of a plan: one pass per dispatch, with a timestamp before and after.
//
// Evaluates to a function of an engine, a plan's number and copies, as `run` takes them. It promises the results of a run
// and the nanoseconds of each dispatch.

(() => {
    // Encodes the dispatches. Returns a function to call after the submission; it promises the nanoseconds.
    function encodeTimed(device, { encoder }, plan) {
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

    return async (engine, id, described) => {
        let times;
        const running = engine.runBy((chunked, plan) => { times = encodeTimed(engine.device, chunked, plan); }, id, described);
        const [bytes, nanoseconds] = await Promise.all([running, times?.()]);
        return { bytes, nanoseconds: JSON.stringify(nanoseconds) };
    };
})()
