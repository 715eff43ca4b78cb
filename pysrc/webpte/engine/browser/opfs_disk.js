// The library's folder in the origin-private file system: entries by name, and locks between tabs.
//
// Evaluates to undefined if the browser stores no files.

(() => {
    const FOLDER = "webpte-library";
    const { storage, locks } = globalThis.navigator ?? {};
    if (!storage?.getDirectory || !locks || !globalThis.FileSystemFileHandle?.prototype.createWritable) return undefined;

    async function orNull(promise) {
        try {
            return await promise;
        } catch (error) {
            if (error.name === "NotFoundError") return null;
            throw error;
        }
    }

    // Promises a function that releases the lock; null if another tab holds it.
    function lock(key) {
        return new Promise((resolve, reject) => {
            const hold = (held) => (held ? new Promise((release) => { resolve(release); }) : resolve(null));
            locks.request(`${FOLDER} ${key}`, { ifAvailable: true }, hold).catch(reject);
        });
    }

    return {
        orNull,
        lock,

        open: async () => (await storage.getDirectory()).getDirectoryHandle(FOLDER, { create: true }),

        async whileLocked(key, work) {
            const release = await lock(key);
            if (!release) return false;
            try {
                await work();
            } finally {
                release();
            }
            return true;
        },

        async readJson(place, name) {
            const handle = await orNull(place.getFileHandle(name));
            const file = handle && await orNull(handle.getFile());
            try {
                return file && JSON.parse(await file.text());
            } catch {
                return null; // a tab was closed while it wrote the file
            }
        },

        async writeJson(place, name, content) {
            const handle = await place.getFileHandle(name, { create: true });
            const out = await handle.createWritable(); // closing it writes all bytes or none
            await out.write(JSON.stringify(content));
            await out.close();
        },

        remove: (place, name) => orNull(place.removeEntry(name, { recursive: true })),
    };
})()
