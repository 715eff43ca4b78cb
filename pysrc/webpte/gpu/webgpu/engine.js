// The JavaScript half of gpu/webgpu/device.py: it owns the WebGPU objects and replays plans.
//
// Python plans and hands over whole batches as JSON; objects are known by number on both sides.
// An execution is one call of `run`. Evaluates to a function that makes an engine: an object with
// the functions that Python uses. `makeCommands`, `makeTransfer`, `makeWindow` and `makeLifts` are what
// commands.js, transfer.js, windows.js and lifts.js evaluate to, and `waiter` comes from waiting.js. `landed`
// is Python's: it is told of the end of what was begun with a number, (number, bytes) or (number, undefined,
// name, message).

((device, makeCommands, makeTransfer, makeWindow, makeLifts, waiter, landed) => {
    const { makeTape, encode, encodeTimed } = makeCommands(device);
    const makeLift = makeLifts(device);
    const buffers = new Map();
    const pipelines = new Map();
    const modules = new Map();
    const layouts = new Map();
    const plans = new Map();
    const anyRead = { closed: true }; // what `collect` takes for the plan of a read
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

    // Runs `work` and throws what WebGPU reports about it, which it does only later.
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

    // The same for work that goes on as a promise: what WebGPU reports goes before its result.
    function watched(work) {
        return scoped(() => {
            const going = Promise.resolve(work());
            going.catch(() => {}); // it is thrown below, unless WebGPU has a better reason
            return { going };
        }).then(({ going }) => going);
    }

    function detach(plan) {
        plan.payload?.close();
        plan.result?.close();
        plan.payload = plan.result = null;
    }

    function known(id) {
        if (!plans.has(id)) throw failure("DeviceError", `plan ${id} does not exist, or not any more`);
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
            const group = device.createBindGroupLayout({
                entries: bindings.map((use, binding) => ({
                    binding, visibility: GPUShaderStage.COMPUTE, buffer: { type: types[use] },
                })),
            });
            layouts.set(key, { group, pipeline: device.createPipelineLayout({ bindGroupLayouts: [group] }) });
        }
        return layouts.get(key);
    }

    async function compile(spec) {
        device.pushErrorScope("validation");
        if (!modules.has(spec.code)) {
            modules.set(spec.code, device.createShaderModule({ label: spec.label, code: spec.code }));
        }
        const module = modules.get(spec.code);
        const layout = layoutOf(spec.bindings);
        // As numbers: browsers take true and false for overrides too, Dawn's own binding for Node does not.
        const constants = Object.fromEntries(spec.overrides.map(([name, value]) => [name, Number(value)]));
        const compute = { module, entryPoint: "main", constants };
        const made = device.createComputePipelineAsync({ label: spec.label, layout: layout.pipeline, compute });
        device.popErrorScope(); // what is in it, the pipeline's own error says better
        try {
            return register(pipelines, { pipeline: await made, group: layout.group });
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

    // Before the dispatches, and after them.
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

    function encodeAll(tape, plan, [copies, kept], encodeKernels) {
        for (const buffer of plan.clears) tape.encoder.clearBuffer(buffer);
        copyAll(tape.encoder, copies);
        for (const part of plan.parts) encodeAll(tape, part.plan, part.copies, encode);
        encodeKernels(tape, plan);
        copyAll(tape.encoder, kept);
    }

    // Encodes and submits one execution; returns the buffer that will hold its results. What is not
    // proven goes as a whole: all of it happens, or nothing.
    function submit(plan, copies, read, encodeKernels = encode, whole = true) {
        const tape = makeTape(whole);
        if (plan.uploads.length) plan.lift.raise(plan.uploads, plan.payload.bytes(), tape.encoder);
        encodeAll(tape, plan, copies, encodeKernels);
        const staging = read && plan.resultBytes ? stagingOf(plan) : null;
        for (const [buffer, size, offset] of staging ? plan.readbacks : []) {
            tape.encoder.copyBufferToBuffer(buffer, 0, staging, offset, size);
        }
        tape.send();
        plan.lift.sent();
        return staging;
    }

    // Until the results of a submission can be looked at.
    async function mapped(plan, staging) {
        if (!staging) {
            await waiter.until(device.queue.onSubmittedWorkDone(), plan);
            return;
        }
        try {
            await waiter.until(staging.mapAsync(GPUMapMode.READ), plan);
        } catch (error) {
            staging.destroy();
            // The loss of the device is told a moment after what it broke.
            await Promise.race([device.lost, new Promise((resolve) => setTimeout(resolve, 100))]);
            check();
            throw error;
        }
    }

    // The results as bytes of their own; with a window they go there, and it is undefined.
    function take(plan, staging, window = null) {
        if (!staging) return new Uint8Array();
        const seen = new Uint8Array(staging.getMappedRange());
        const result = window ? undefined : seen.slice();
        window?.bytes().set(seen);
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

    // Tells Python at once, in the turn in which this is known: a promise would take one more.
    function land(number, going) {
        going.then(
            (bytes) => landed(number, bytes),
            (error) => landed(number, undefined, error.name, error.message),
        );
    }

    // The same for what a plan leaves in its window: there it is safe only until the next comes.
    async function landInWindow(number, plan, staging) {
        let bytes;
        try {
            await mapped(plan, staging);
            bytes = take(plan, staging, plan.result);
            check();
        } catch (error) {
            landed(number, undefined, error.name, error.message);
            return;
        }
        landed(number, bytes);
    }

    return {
        createBuffers(sizes, uniform) {
            const usage = (uniform ? GPUBufferUsage.UNIFORM : GPUBufferUsage.STORAGE)
                | GPUBufferUsage.COPY_DST | GPUBufferUsage.COPY_SRC;
            const made = [];
            const work = () => {
                for (const size of JSON.parse(sizes)) made.push(device.createBuffer({ size, usage }));
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

        // A buffer that other code made and will destroy: known here, but not owned.
        adoptBuffer(buffer) {
            return register(buffers, buffer);
        },

        forgetBuffers(ids) {
            for (const id of JSON.parse(ids)) buffers.delete(id);
        },

        read(number, id, size) {
            land(number, watched(() => {
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

        transfer: makeTransfer(device, buffers, check, failure),

        createPlan(description) {
            const { uploads, clears, parts, dispatches, readbacks, resultBytes } = JSON.parse(description);
            return scoped(() => register(plans, {
                resultBytes, closed: false, staging: [], lift: makeLift(), proven: false,
                uploads: uploads.map(([id, ...rest]) => [buffers.get(id), ...rest]),
                clears: clears.map((id) => buffers.get(id)),
                parts: parts.map(([id, ...copies]) => ({ plan: known(id), copies: copies.map(resolved) })),
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

        // Where Python has what a plan uploads, from now on, and where it looks for what comes back.
        attach(id, payload, result) {
            const plan = known(id);
            detach(plan);
            plan.payload = payload && makeWindow(payload);
            plan.result = result && makeWindow(result);
        },

        destroyPlan(id) {
            const plan = plans.get(id);
            plan.closed = true;
            detach(plan);
            plan.lift.close();
            for (const buffer of plan.staging) buffer.destroy();
            plans.delete(id);
        },

        // A plan's first execution is watched by error scopes; later ones repeat it exactly,
        // unless they copy from buffers that other code can reach.
        // Without `read` nothing comes back, and there is nothing to wait for. Returns whether its
        // end will be told.
        run(number, id, described, read, reachable) {
            check();
            const plan = known(id);
            const copies = copiesOf(described);
            const start = (whole) => submit(plan, copies, read, encode, whole);
            if (plan.proven && !reachable) {
                const staging = start(false);
                if (read) landInWindow(number, plan, staging);
                return read;
            }
            const begun = () => {
                const staging = start(true);
                return read ? collect(plan, staging) : new Uint8Array();
            };
            land(number, watched(begun).then((bytes) => {
                plan.proven = true;
                return bytes;
            }));
            return true;
        },

        // A run in which every dispatch is timed; gives nanoseconds, and the results as `run` does.
        profile(id, described) {
            check();
            const plan = known(id);
            return watched(async () => {
                let times;
                const staging = submit(plan, copiesOf(described), true, (tape) => {
                    times = encodeTimed(tape, plan);
                });
                const [bytes, nanoseconds] = await Promise.all([collect(plan, staging), times()]);
                return { bytes, nanoseconds: JSON.stringify(nanoseconds) };
            });
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
