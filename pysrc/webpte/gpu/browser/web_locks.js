// Locks that all tabs of this origin share. A closed tab gives its locks back. Without Web Locks (an old browser,
// Node) there are none: `acquire` waits for nobody, and `isShared` is false.

({
    // Promises a function that gives the lock back; other tabs wait meanwhile, unless all ask for a "shared" one.
    acquire(name, mode = "exclusive") {
        const locks = globalThis.navigator?.locks;
        if (!locks) return Promise.resolve(() => {});
        return new Promise((resolve) => {
            const held = () => new Promise((release) => { resolve(() => release()); });
            locks.request(name, { mode }, held).catch(() => resolve(() => {})); // a page in a frame may not
        });
    },

    // Promises whether the lock of this name is held more than once.
    async isShared(name) {
        try {
            const { held } = await navigator.locks.query();
            return held.filter((lock) => lock.name === name).length > 1;
        } catch {
            return false;
        }
    },
})
