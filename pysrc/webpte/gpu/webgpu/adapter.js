// The browser's WebGPU adapter: request it, describe it, open its device.

({
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
            vendor, architecture, description: description || device, limits,
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
})
