// The JavaScript half of engine/gpu/webgpu/device.py: it owns the WebGPU objects and replays plans.
//
// Python plans and hands over whole batches as JSON; both sides know objects by number. An execution is
// one call of `run`. Evaluates to a function that returns an engine: an object with the functions that
// Python calls. `makeReplay` and `makeUpload` are the values of replay.js and upload_constants.js; `waiter` comes
// from waiting.js.
// `completed` is Python's: the engine calls it when a numbered request ends, with (number, bytes) or with
// (number, undefined, error name, error message).

((device, makeReplay, makeUpload, waiter, completed) => {
    const { makeChunkedEncoder, encode, sliceOf, makeStagingRing, makeHeapView } = makeReplay(device);
    const buffers = new Map();
    const pipelines = new Map();
    const modules = new Map();
    const layouts = new Map();
    const plans = new Map();
    const UNIFORM_BYTES = 65536; // constants of up to this size can be bound as uniforms, too
    const anyRead = { closed: true }; // stands for the plan when `collect` completes a `read`
    let nextId = 1;
    let lost = null;
    let uncaptured = null;
    device.lost.then((info) => { lost = info; });
    device.addEventListener("uncapturederror", (event) => { uncaptured ??= event.error; });

    function failure(name, message) {
        const error = new Error(message);
        error.name = name;
        return error;
    }

    function check() {
        if (lost) throw failure("DeviceLost", `${lost.reason}: ${lost.message}`);
        if (uncaptured) {
            const error = uncaptured;
            uncaptured = null;
            throw failure("DeviceError", error.message);
        }
    }

    // Runs `work` inside error scopes, and throws what WebGPU reports about it later.
    async function scoped(work) {
        check();
        device.pushErrorScope("out-of-memory");
        device.pushErrorScope("validation");
        let result;
        let thrown = null;
        try {
            result = work();
        } catch (error) {
            thrown = error;
        }
        const [invalid, memory] = await Promise.all([device.popErrorScope(), device.popErrorScope()]);
        if (memory) throw failure("OutOfMemory", memory.message);
        if (thrown) throw thrown;
        if (invalid) throw failure("DeviceError", invalid.message);
        return result;
    }

    // Runs asynchronous `work` inside error scopes; an error that WebGPU reports replaces its result.
    function validated(work) {
        return scoped(() => {
            const pending = Promise.resolve(work());
            pending.catch(() => {}); // it is thrown below, unless WebGPU reports a better reason
            return { pending };
        }).then(({ pending }) => pending);
    }

    function detach(plan) {
        plan.payload?.close();
        plan.result?.close();
        plan.payload = plan.result = null;
    }

    // Sets views such as `makeHeapView` makes.
    function attachViews(id, payload, result) {
        const plan = planOf(id);
        detach(plan);
        Object.assign(plan, { payload, result });
    }

    function planOf(id) {
        if (!plans.has(id)) throw failure("DeviceError", `plan ${id} does not exist, or was destroyed`);
        return plans.get(id);
    }

    function register(table, object) {
        table.set(nextId, object);
        return nextId++;
    }

    function layoutOf(bindings) {
        const key = bindings.join();
        if (!layouts.has(key)) {
            const types = { read: "read-only-storage", write: "storage", uniform: "uniform" };
            layouts.set(key, device.createBindGroupLayout({
                entries: bindings.map((use, binding) => ({
                    binding, visibility: GPUShaderStage.COMPUTE, buffer: { type: types[use] },
                })),
            }));
        }
        return layouts.get(key);
    }

    async function compile(spec) {
        device.pushErrorScope("validation");
        if (!modules.has(spec.code)) {
            modules.set(spec.code, device.createShaderModule({ label: spec.label, code: spec.code }));
        }
        const module = modules.get(spec.code);
        const group = layoutOf(spec.bindings);
        // Of each pipeline: Deno's WebGPU (2.9) checks the sizes of bindings by the pipeline before, if that has the same.
        const layout = device.createPipelineLayout({ bindGroupLayouts: [group] });
        // As numbers: Dawn's binding for Node does not accept true and false for overrides, unlike browsers.
        const constants = Object.fromEntries(spec.overrides.map(([name, value]) => [name, Number(value)]));
        const compute = { module, entryPoint: "main", constants };
        const compiling = device.createComputePipelineAsync({ label: spec.label, layout, compute });
        device.popErrorScope(); // ignored: the pipeline's own error says more
        try {
            return register(pipelines, { pipeline: await compiling, group });
        } catch (error) {
            check();
            const { messages } = await module.getCompilationInfo();
            const lines = messages.map((m) => `line ${m.lineNum}: ${m.message}`);
            throw failure("ShaderError", [`${spec.label}: ${error.message}`, ...lines].join("\n"));
        }
    }

    function stagingOf(plan) {
        return plan.staging.pop() ?? device.createBuffer({
            size: plan.resultBytes, usage: GPUBufferUsage.MAP_READ | GPUBufferUsage.COPY_DST,
        });
    }

    // The copies before the dispatches and those after them, with buffers in place of their numbers.
    function copiesOf(described) {
        return described ? JSON.parse(described).map(resolved) : [[], []];
    }

    function resolved(copies) {
        return copies.map(([source, target, ...rest]) => [buffers.get(source), buffers.get(target), ...rest]);
    }

    function copyAll(encoder, copies) {
        for (const [source, target, size, from, to] of copies) {
            encoder.copyBufferToBuffer(source, from, target, to, size);
        }
    }

    function encodeAll(chunked, plan, [copies, copiesAfter], encodeKernels, slice = sliceOf(plan)) {
        if (slice.isFirst) {
            for (const buffer of plan.clears) chunked.encoder.clearBuffer(buffer);
            copyAll(chunked.encoder, copies);
            for (const part of plan.parts) encodeAll(chunked, part.plan, part.copies, encode);
        }
        encodeKernels(chunked, plan, slice);
        if (slice.isLast) copyAll(chunked.encoder, copiesAfter);
    }

    // Encodes and submits one execution; returns the staging buffer that will hold its results. A plan that
    // is not validated yet is one submission (`whole`): all of it happens, or nothing.
    function submit(plan, copies, read, encodeKernels = encode, whole = true, slice = sliceOf(plan)) {
        const chunked = makeChunkedEncoder(whole);
        const uploads = slice.isFirst ? plan.uploads : [];
        if (uploads.length) plan.ring.upload(uploads, plan.payload, chunked.encoder);
        encodeAll(chunked, plan, copies, encodeKernels, slice);
        const staging = read && slice.isLast && plan.resultBytes ? stagingOf(plan) : null;
        for (const [buffer, size, offset] of staging ? plan.readbacks : []) {
            chunked.encoder.copyBufferToBuffer(buffer, 0, staging, offset, size);
        }
        chunked.submit();
        plan.ring.recycle();
        return staging;
    }

    // Waits until the results of a submission can be read.
    async function mapped(plan, staging) {
        if (!staging) {
            await waiter.until(device.queue.onSubmittedWorkDone(), plan);
            return;
        }
        try {
            await waiter.until(staging.mapAsync(GPUMapMode.READ), plan);
        } catch (error) {
            staging.destroy();
            // The loss of a device is reported a moment after the errors that it causes.
            await Promise.race([device.lost, new Promise((resolve) => setTimeout(resolve, 100))]);
            check();
            throw error;
        }
    }

    // Returns a copy of the results. With a `view` they are written there instead; returns undefined.
    function take(plan, staging, view = null) {
        if (!staging) return new Uint8Array();
        const bytes = new Uint8Array(staging.getMappedRange());
        const result = view ? undefined : bytes.slice();
        view?.bytes().set(bytes);
        staging.unmap();
        if (plan.closed) staging.destroy(); else plan.staging.push(staging);
        return result;
    }

    async function collect(plan, staging) {
        await mapped(plan, staging);
        const result = take(plan, staging);
        check();
        return result;
    }

    // Tells Python the end of a request in the same turn: awaiting a promise would take one more.
    function complete(number, pending) {
        pending.then(
            (bytes) => completed(number, bytes),
            (error) => completed(number, undefined, error.name, error.message),
        );
    }

    // Completes a run with its results in the plan's heap view, where the next run overwrites them.
    async function completeInPlace(number, plan, staging) {
        let bytes;
        try {
            await mapped(plan, staging);
            bytes = take(plan, staging, plan.result);
            check();
        } catch (error) {
            completed(number, undefined, error.name, error.message);
            return;
        }
        completed(number, bytes);
    }

    return {
        createBuffers(sizes, use) {
            const copied = GPUBufferUsage.COPY_DST | GPUBufferUsage.COPY_SRC;
            const usageOf = (size) => copied
                | (use === "uniform" ? 0 : GPUBufferUsage.STORAGE)
                | (use === "uniform" || (use === "constant" && size <= UNIFORM_BYTES) ? GPUBufferUsage.UNIFORM : 0);
            const made = [];
            const work = () => {
                for (const size of JSON.parse(sizes)) made.push(device.createBuffer({ size, usage: usageOf(size) }));
            };
            return scoped(work).then(
                () => JSON.stringify(made.map((buffer) => register(buffers, buffer))),
                (error) => {
                    for (const buffer of made) buffer.destroy();
                    throw error;
                },
            );
        },

        destroyBuffers(ids) {
            for (const id of JSON.parse(ids)) {
                buffers.get(id).destroy();
                buffers.delete(id);
            }
        },

        async createPipelines(specs, progress) {
            check();
            const wanted = JSON.parse(specs);
            let done = 0;
            const results = await Promise.allSettled(wanted.map(async (spec) => {
                const id = await compile(spec);
                progress?.("compile", ++done, wanted.length);
                return id;
            }));
            for (const result of results) if (result.status === "rejected") throw result.reason;
            return JSON.stringify(results.map((result) => result.value));
        },

        device,

        bufferOf(id) {
            return buffers.get(id);
        },

        isBuffer(value) {
            return value instanceof GPUBuffer;
        },

        // Registers a buffer that other code made and will destroy.
        adoptBuffer(buffer) {
            return register(buffers, buffer);
        },

        forgetBuffers(ids) {
            for (const id of JSON.parse(ids)) buffers.delete(id);
        },

        read(number, id, size) {
            complete(number, validated(() => {
                const usage = GPUBufferUsage.MAP_READ | GPUBufferUsage.COPY_DST;
                const staging = device.createBuffer({ size, usage });
                const encoder = device.createCommandEncoder();
                encoder.copyBufferToBuffer(buffers.get(id), 0, staging, 0, size);
                device.queue.submit([encoder.finish()]);
                return collect(anyRead, staging);
            }));
        },

        write(id, offset, bytes) {
            check();
            const view = bytes.getBuffer("u8");
            try {
                device.queue.writeBuffer(buffers.get(id), offset, view.data);
            } finally {
                view.release();
            }
        },

        uploadConstants: makeUpload(device, buffers, check, failure),

        createPlan(description) {
            const { uploads, clears, parts, dispatches, readbacks, resultBytes } = JSON.parse(description);
            return scoped(() => register(plans, {
                resultBytes, closed: false, staging: [], ring: makeStagingRing(), validated: false,
                uploads: uploads.map(([id, ...rest]) => [buffers.get(id), ...rest]),
                clears: clears.map((id) => buffers.get(id)),
                parts: parts.map(([id, ...copies]) => ({ plan: planOf(id), copies: copies.map(resolved) })),
                readbacks: readbacks.map(([id, ...rest]) => [buffers.get(id), ...rest]),
                dispatches: dispatches.map(([id, resources, x, y, z]) => {
                    const { pipeline, group } = pipelines.get(id);
                    const entries = resources.map(([buffer, offset, size], binding) => (
                        { binding, resource: { buffer: buffers.get(buffer), offset, size } }
                    ));
                    return { pipeline, group: device.createBindGroup({ layout: group, entries }), x, y, z };
                }),
            }));
        },

        // Sets the arrays in Python's memory that a plan uploads from, and that its results are written to.
        attach(id, payload, result) {
            attachViews(id, payload && makeHeapView(payload), result && makeHeapView(result));
        },

        attachViews,

        destroyPlan(id) {
            const plan = plans.get(id);
            plan.closed = true;
            detach(plan);
            plan.ring.close();
            for (const buffer of plan.staging) buffer.destroy();
            plans.delete(id);
        },

        // A plan's first execution runs inside error scopes. Later ones repeat it exactly, and do not; unless
        // `validate` asks for it, because they copy from buffers that other code can destroy. Without `read`
        // nothing comes back, and there is nothing to wait for. `range`: the first dispatch and the end of a slice of
        // a long execution. Returns whether `completed` will be called.
        run(number, id, described, read, validate, ...range) {
            check();
            const plan = planOf(id);
            const copies = copiesOf(described);
            const slice = sliceOf(plan, ...range);
            const start = (whole) => submit(plan, copies, read, encode, whole, slice);
            if (plan.validated && !validate) {
                const staging = start(false);
                if (read) completeInPlace(number, plan, staging);
                return read;
            }
            const work = () => {
                const staging = start(true);
                return read ? collect(plan, staging) : new Uint8Array();
            };
            complete(number, validated(work).then((bytes) => {
                plan.validated ||= slice.isLast;
                return bytes;
            }));
            return true;
        },

        // A run whose dispatches `encodeKernels` encodes, in place of replay.js; promises its results.
        runBy(encodeKernels, id, described) {
            check();
            const plan = planOf(id);
            return validated(() => collect(plan, submit(plan, copiesOf(described), true, encodeKernels)));
        },

        copy(described) {
            check();
            const encoder = device.createCommandEncoder();
            copyAll(encoder, resolved(JSON.parse(described)));
            device.queue.submit([encoder.finish()]);
        },

        counts() {
            return JSON.stringify({ buffers: buffers.size, pipelines: pipelines.size, plans: plans.size });
        },

        isLost() {
            return lost !== null;
        },

        destroy() {
            device.destroy();
        },
    };
})
