// Files by their SHA-256 that the browser shares among sites (Cross-Origin Storage, a proposal:
// https://github.com/WICG/cross-origin-storage). Without it nothing is found, and nothing is given.
//
// The browser may ask people, who may refuse: every failure counts as "not there".

(() => {
    const handleOf = async (sha256, options) => {
        const hash = { algorithm: "SHA-256", value: sha256 };
        const [handle] = await globalThis.navigator.crossOriginStorage.requestFileHandles([hash], options);
        return handle;
    };
    const isThere = () => Boolean(globalThis.navigator?.crossOriginStorage?.requestFileHandles);

    return {
        // Promises a Blob, or undefined.
        async find(sha256) {
            try {
                return isThere() ? await (await handleOf(sha256)).getFile() : undefined;
            } catch {
                return undefined;
            }
        },

        // Promises whether the browser took the file, whose hash was checked.
        async give(sha256, blob) {
            if (!isThere()) return false;
            try {
                const out = await (await handleOf(sha256, { create: true })).createWritable();
                await out.write(blob);
                await out.close();
                return true;
            } catch {
                return false;
            }
        },
    };
})()
