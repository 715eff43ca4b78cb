// Locks that all tabs of this origin share. A closed tab gives its locks back. Without Web Locks (an old browser,
// Node) there are none: `acquire` waits for nobody, and `held` is empty.

({
    // Promises a function that gives the lock back; other tabs wait meanwhile.
    acquire(name) {
        const locks = globalThis.navigator?.locks;
        if (!locks) return Promise.resolve(() => {});
        return new Promise((resolve) => {
            const held = () => new Promise((release) => { resolve(() => release()); });
            locks.request(name, held).catch(() => resolve(() => {})); // a page in a frame may not
        });
    },

    // Promises the names of all locks that are held, in this tab and others, as JSON.
    async held() {
        try {
            const { held } = await navigator.locks.query();
            return JSON.stringify(held.map((lock) => lock.name));
        } catch {
            return "[]";
        }
    },
})
