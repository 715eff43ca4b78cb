// The browser's WebGPU adapter: request it, describe it, open its device.

(() => {
    // What WebGL calls the GPU, or "". Firefox names it there alone, and roughly: "NVIDIA GeForce GTX 980, or similar".
    // A renderer on the CPU says nothing about the adapter of WebGPU.
    const readWebglName = () => {
        try {
            const gl = new OffscreenCanvas(1, 1).getContext("webgl", { powerPreference: "high-performance" });
            const name = gl?.getParameter(gl.RENDERER) ?? "";
            gl?.getExtension("WEBGL_lose_context")?.loseContext();
            return /llvmpipe|swiftshader|softpipe|software|basic render/i.test(name) ? "" : name;
        } catch {
            return ""; // WebGL is off
        }
    };
    let known; // a context takes a while to make
    const webglName = () => (known ??= readWebglName());

    return {
        // Requests the adapter twice if need be: a browser that has just started can answer null at first.
        async request() {
            if (!globalThis.navigator?.gpu) return undefined;
            const options = { powerPreference: "high-performance" };
            const request = () => navigator.gpu.requestAdapter(options);
            return (await request()) ?? (await request()) ?? undefined; // undefined becomes None in Python, null does not
        },

        // The browser's name and version.
        browser() {
            return globalThis.navigator?.userAgent ?? "";
        },

        describe(adapter) {
            const limits = {};
            for (const name in adapter.limits) {
                if (typeof adapter.limits[name] === "number") limits[name] = adapter.limits[name];
            }
            // WebGPU reports subgroup sizes as adapter info; here they are limits like the others.
            for (const name of ["subgroupMinSize", "subgroupMaxSize"]) {
                if (adapter.info?.[name]) limits[name] = adapter.info[name];
            }
            const matrixShapes = [...(adapter.info?.subgroupMatrixConfigs ?? [])].map(
                ({ componentType, resultComponentType, M, N, K }) => `${componentType} ${resultComponentType} ${M}x${N}x${K}`,
            );
            const { vendor = "", architecture = "", description = "", device = "", isFallbackAdapter = false } = adapter.info ?? {};
            return JSON.stringify({
                vendor, architecture, description: description || device || (vendor ? "" : webglName()), limits,
                software: isFallbackAdapter || adapter.isFallbackAdapter === true,
                features: [...adapter.features].sort(),
                matrixShapes,
                // Whether WGSL has `dot4I8Packed` here.
                packedDot: navigator.gpu.wgslLanguageFeatures?.has("packed_4x8_integer_dot_product") ?? false,
            });
        },

        // Opens a device with these features, and with these limits where the adapter has them.
        async open(adapter, features, limits) {
            const requiredLimits = {};
            for (const [name, limit] of Object.entries(JSON.parse(limits))) {
                if (typeof adapter.limits[name] === "number") requiredLimits[name] = limit;
            }
            return adapter.requestDevice({ requiredFeatures: JSON.parse(features), requiredLimits });
        },
    };
})()
