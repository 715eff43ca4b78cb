// The browser's WebGPU adapter, and what it says about itself.

({
    // The adapter, asked for twice: the first answer in a fresh browser can be null.
    async request() {
        if (!globalThis.navigator?.gpu) return undefined;
        const options = { powerPreference: "high-performance" };
        const ask = () => navigator.gpu.requestAdapter(options);
        return (await ask()) ?? (await ask()) ?? undefined; // undefined is Python's None, null is not
    },

    // Whether WGSL has `dot4I8Packed` here.
    hasByteProducts() {
        return navigator.gpu.wgslLanguageFeatures?.has("packed_4x8_integer_dot_product") ?? false;
    },

    describe(adapter) {
        const limits = {};
        for (const name in adapter.limits) {
            if (typeof adapter.limits[name] === "number") limits[name] = adapter.limits[name];
        }
        // Of the adapter, but limits in what they mean: what every subgroup has at least and at most.
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
        });
    },

    // A device with all that the adapter offers: its limits, and those of the features it has.
    async open(adapter, features) {
        const requiredLimits = {};
        for (const name in adapter.limits) {
            if (typeof adapter.limits[name] === "number") requiredLimits[name] = adapter.limits[name];
        }
        const requiredFeatures = JSON.parse(features).filter((name) => adapter.features.has(name));
        return adapter.requestDevice({ requiredFeatures, requiredLimits });
    },
})
