// The JavaScript half of gpu/webgpu.py: it owns the WebGPU objects and replays plans.
//
// Python plans and hands over whole batches as JSON; objects are known by number on both sides.
// An execution is one call of `run`. Evaluates to an object with the functions that Python uses.

({
    // The adapter, asked for twice: the first answer in a fresh browser can be null.
    async requestAdapter() {
        if (!globalThis.navigator?.gpu) return undefined;
        const options = { powerPreference: "high-performance" };
        const ask = () => navigator.gpu.requestAdapter(options);
        return (await ask()) ?? (await ask()) ?? undefined; // undefined is Python's None, null is not
    },

    describeAdapter(adapter) {
        const limits = {};
        for (const name in adapter.limits) {
            if (typeof adapter.limits[name] === "number") limits[name] = adapter.limits[name];
        }
        const { vendor = "", architecture = "", description = "", device = "", isFallbackAdapter = false } = adapter.info ?? {};
        return JSON.stringify({
            vendor, architecture, description: description || device, limits,
            software: isFallbackAdapter || adapter.isFallbackAdapter === true,
            features: [...adapter.features].sort(),
        });
    },

    // A file by URL. Where the server answers ranges, only the parts that are read are fetched;
    // otherwise the whole of it is collected into a Blob, which the browser keeps out of the heap.
    async openUrl(url, progress) {
        const head = await fetch(url, { headers: { Range: "bytes=0-65535" } });
        if (head.status === 416) return this.blobFile(new Blob([])); // the range of an empty file
        if (!head.ok) throw new Error(`the server answered ${head.status} ${head.statusText}`);
        const size = Number(/\/(\d+)$/.exec(head.headers.get("Content-Range") ?? "")?.[1] ?? NaN);
        if (head.status === 206 && Number.isSafeInteger(size)) {
            return rangeFile(url, size, await head.arrayBuffer());
        }
        const response = head.status === 206 ? await fetch(url) : head;
        if (!response.ok) throw new Error(`the server answered ${response.status} ${response.statusText}`);
        return this.blobFile(await collect(response));

        async function collect(response) {
            const total = Number(response.headers.get("Content-Length") ?? 0);
            const chunks = [];
            let done = 0;
            for (const reader = response.body.getReader(); ;) {
                const { value, done: ended } = await reader.read();
                if (ended) return new Blob(chunks);
                chunks.push(value);
                done += value.byteLength;
                progress?.("fetch", done, Math.max(total, done));
            }
        }

        function rangeFile(url, size, head) {
            return {
                size,
                async read(offset, length) {
                    if (offset + length <= head.byteLength) return head.slice(offset, offset + length);
                    const range = `bytes=${offset}-${offset + length - 1}`;
                    const response = await fetch(url, { headers: { Range: range } });
                    const bytes = await response.arrayBuffer();
                    if (response.status !== 206 || bytes.byteLength !== length) {
                        throw new Error(`the server answered ${response.status} with ${bytes.byteLength} bytes to ${range}`);
                    }
                    return bytes;
                },
            };
        }
    },

    blobFile(blob) {
        return { size: blob.size, read: (offset, length) => blob.slice(offset, offset + length).arrayBuffer() };
    },

    bytesFile(bytes) {
        const view = bytes.getBuffer("u8");
        try {
            return this.blobFile(new Blob([view.data])); // a copy: the Python object may go away
        } finally {
            view.release();
        }
    },

    async createEngine(adapter, features) {
        const requiredLimits = {};
        for (const name in adapter.limits) {
            if (typeof adapter.limits[name] === "number") requiredLimits[name] = adapter.limits[name];
        }
        const requiredFeatures = JSON.parse(features).filter((name) => adapter.features.has(name));
        const device = await adapter.requestDevice({ requiredFeatures, requiredLimits });
        return engineOf(device);

        function engineOf(device) {
            const CHUNK = 32 * 1024 * 1024; // constants are read and written in parts of this size
            const buffers = new Map();
            const pipelines = new Map();
            const modules = new Map();
            const layouts = new Map();
            const plans = new Map();
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

            // Not every browser has the dot product of four bytes; a function of that name will do.
            function completed(code) {
                const builtin = navigator.gpu.wgslLanguageFeatures?.has("packed_4x8_integer_dot_product");
                if (builtin || !code.includes("dot4I8Packed")) return code;
                return `${code}
fn dot4I8Packed(a: u32, b: u32) -> i32 {
    let shifts = vec4<u32>(24u, 16u, 8u, 0u);
    let x = (vec4<i32>(i32(a)) << shifts) >> vec4<u32>(24u);
    let y = (vec4<i32>(i32(b)) << shifts) >> vec4<u32>(24u);
    return dot(x, y);
}`;
            }

            async function compile(spec) {
                device.pushErrorScope("validation");
                if (!modules.has(spec.code)) {
                    const code = completed(spec.code);
                    modules.set(spec.code, device.createShaderModule({ label: spec.label, code }));
                }
                const module = modules.get(spec.code);
                const layout = layoutOf(spec.bindings);
                const compute = { module, entryPoint: "main", constants: Object.fromEntries(spec.overrides) };
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

            function encode(encoder, plan) {
                if (!plan.dispatches.length) return;
                const pass = encoder.beginComputePass();
                let current = null;
                for (const { pipeline, group, x, y, z } of plan.dispatches) {
                    if (pipeline !== current) pass.setPipeline(current = pipeline);
                    pass.setBindGroup(0, group);
                    pass.dispatchWorkgroups(x, y, z);
                }
                pass.end();
            }

            // One pass per dispatch, with the GPU's clock before and after; nanoseconds each.
            async function timeDispatches(plan) {
                const count = plan.dispatches.length;
                const perSet = 2048; // WebGPU's limit is 4096 queries in a set
                const usage = GPUBufferUsage.QUERY_RESOLVE | GPUBufferUsage.COPY_SRC;
                const resolved = device.createBuffer({ size: Math.max(16 * count, 16), usage });
                const staging = device.createBuffer({
                    size: resolved.size, usage: GPUBufferUsage.MAP_READ | GPUBufferUsage.COPY_DST,
                });
                const encoder = device.createCommandEncoder();
                for (let start = 0; start < count; start += perSet) {
                    const part = plan.dispatches.slice(start, start + perSet);
                    const querySet = device.createQuerySet({ type: "timestamp", count: 2 * part.length });
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
                device.queue.submit([encoder.finish()]);
                await staging.mapAsync(GPUMapMode.READ);
                const stamps = new BigUint64Array(staging.getMappedRange());
                const times = plan.dispatches.map((_, i) => Number(stamps[2 * i + 1] - stamps[2 * i]));
                staging.destroy();
                resolved.destroy();
                return times;
            }

            function writeUploads(plan, payload) {
                if (!plan.uploads.length) return;
                const view = payload.getBuffer("u8");
                try {
                    for (const [buffer, offset, size] of plan.uploads) {
                        device.queue.writeBuffer(buffer, 0, view.data, offset, size);
                    }
                } finally {
                    view.release();
                }
            }

            function stagingOf(plan) {
                return plan.staging.pop() ?? device.createBuffer({
                    size: plan.resultBytes, usage: GPUBufferUsage.MAP_READ | GPUBufferUsage.COPY_DST,
                });
            }

            function copyAll(encoder, copies) {
                for (const [source, target, size] of copies) {
                    encoder.copyBufferToBuffer(buffers.get(source), 0, buffers.get(target), 0, size);
                }
            }

            // Encodes and submits one execution; returns the buffer that will hold its results.
            function submit(plan, payload, [copies, kept], read) {
                writeUploads(plan, payload);
                const encoder = device.createCommandEncoder();
                copyAll(encoder, copies);
                encode(encoder, plan);
                copyAll(encoder, kept);
                const staging = read && plan.resultBytes ? stagingOf(plan) : null;
                for (const [buffer, size, offset] of staging ? plan.readbacks : []) {
                    encoder.copyBufferToBuffer(buffer, 0, staging, offset, size);
                }
                device.queue.submit([encoder.finish()]);
                return staging;
            }

            async function collect(plan, staging) {
                if (!staging) {
                    await device.queue.onSubmittedWorkDone();
                    check();
                    return new Uint8Array();
                }
                try {
                    await staging.mapAsync(GPUMapMode.READ);
                } catch (error) {
                    staging.destroy();
                    // The loss of the device is told a moment after what it broke.
                    await Promise.race([device.lost, new Promise((resolve) => setTimeout(resolve, 100))]);
                    check();
                    throw error;
                }
                const result = new Uint8Array(staging.getMappedRange()).slice();
                staging.unmap();
                if (plan.closed) staging.destroy(); else plan.staging.push(staging);
                check();
                return result;
            }

            const converters = {
                float64: { from: 8, to: 4, of: (bytes) => Float32Array.from(new Float64Array(bytes)) },
                float16: { from: 2, to: 4, of: (bytes) => Float32Array.from(new Uint16Array(bytes), halfToFloat) },
                int64: {
                    from: 8, to: 4, of: (bytes) => {
                        const words = new Int32Array(bytes);
                        const low = new Int32Array(words.length / 2);
                        for (let i = 0; i < low.length; i++) {
                            low[i] = words[2 * i];
                            if (words[2 * i + 1] !== low[i] >> 31) {
                                throw failure("Overflow", "an int64 constant does not fit into 32 bits");
                            }
                        }
                        return low;
                    },
                },
            };

            function halfToFloat(half) {
                const sign = half & 0x8000 ? -1 : 1;
                const exponent = (half >> 10) & 0x1f;
                const fraction = half & 0x3ff;
                if (exponent === 0) return sign * fraction * 2 ** -24;
                if (exponent === 31) return fraction ? NaN : sign * Infinity;
                return sign * (1 + fraction / 1024) * 2 ** (exponent - 15);
            }

            // The parts in which one transfer is read: aligned, so that each is a valid write.
            function* partsOf([bufferId, offset, size, convert]) {
                const { from, to } = converters[convert] ?? { from: 1, to: 1 };
                for (let start = 0; start < size; start += CHUNK) {
                    const length = Math.min(CHUNK, size - start);
                    yield { bufferId, from: offset + start, length, target: (start / from) * to, convert };
                }
            }

            // Neighbours in the file are read together: requests cost more than the bytes between.
            function windowsOf(parts) {
                const windows = [];
                for (const part of parts) {
                    const last = windows.at(-1);
                    const end = part.from + part.length;
                    if (last && end - last.from <= CHUNK && part.from - (last.from + last.length) <= 65536) {
                        last.length = Math.max(last.length, end - last.from);
                        last.parts.push(part);
                    } else {
                        windows.push({ from: part.from, length: part.length, parts: [part] });
                    }
                }
                return windows;
            }

            function writePart(part, bytes, offset) {
                const converter = converters[part.convert];
                let data = new Uint8Array(bytes, offset, part.length);
                if (converter) data = new Uint8Array(converter.of(data.slice().buffer).buffer);
                const whole = data.byteLength & ~3;
                const buffer = buffers.get(part.bufferId);
                if (whole) device.queue.writeBuffer(buffer, part.target, data, 0, whole);
                if (whole < data.byteLength) {
                    const tail = new Uint8Array(4);
                    tail.set(data.subarray(whole));
                    device.queue.writeBuffer(buffer, part.target + whole, tail);
                }
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

                read(id, size) {
                    return watched(() => {
                        const usage = GPUBufferUsage.MAP_READ | GPUBufferUsage.COPY_DST;
                        const staging = device.createBuffer({ size, usage });
                        const encoder = device.createCommandEncoder();
                        encoder.copyBufferToBuffer(buffers.get(id), 0, staging, 0, size);
                        device.queue.submit([encoder.finish()]);
                        return collect({ closed: true }, staging);
                    });
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

                // Reads ahead of what it writes, but never holds more than a few chunks.
                async transfer(file, transfers, total, progress) {
                    const parts = JSON.parse(transfers).flatMap((transfer) => [...partsOf(transfer)]);
                    const windows = windowsOf(parts);
                    const reading = [];
                    let started = 0;
                    let done = 0;
                    for (const window of windows) {
                        while (started < windows.length && reading.length < 3) {
                            const { from, length } = windows[started++];
                            const read = file.read(from, length);
                            read.catch(() => {}); // it is awaited below, perhaps after another one failed
                            reading.push(read);
                        }
                        const bytes = await reading.shift();
                        check();
                        for (const part of window.parts) {
                            writePart(part, bytes, part.from - window.from);
                            done += part.length;
                        }
                        progress?.("constants", done, total);
                    }
                },

                createPlan(description) {
                    const { uploads, dispatches, readbacks, resultBytes } = JSON.parse(description);
                    return scoped(() => register(plans, {
                        resultBytes, closed: false, staging: [], proven: false,
                        uploads: uploads.map(([id, ...rest]) => [buffers.get(id), ...rest]),
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

                destroyPlan(id) {
                    const plan = plans.get(id);
                    plan.closed = true;
                    for (const buffer of plan.staging) buffer.destroy();
                    plans.delete(id);
                },

                // A plan's first execution is watched by error scopes; later ones repeat it exactly,
                // unless they copy from buffers that other code can reach.
                // Without `read` nothing comes back, and there is nothing to wait for.
                run(id, payload, described, read, reachable) {
                    check();
                    const plan = plans.get(id);
                    const copies = described ? JSON.parse(described) : [[], []];
                    const start = () => {
                        const staging = submit(plan, payload, copies, read);
                        return read ? collect(plan, staging) : undefined;
                    };
                    if (plan.proven && !reachable) return start();
                    return watched(start).then((result) => {
                        plan.proven = true;
                        return result;
                    });
                },

                async profile(id) {
                    check();
                    return JSON.stringify(await timeDispatches(plans.get(id)));
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
        }
    },
})
