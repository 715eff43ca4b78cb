// A browser's GPU device in a time of its own, for tests of waiting.js: what it looks at, and when.
//
// Evaluates to a function. It takes
//     looksEvery    milliseconds between looks for finished work
//     looksOn       what makes the browser look beside that: "scope", "submit"
//     submitCost    milliseconds that an empty submission keeps the GPU process busy (0)
//     chainMs       milliseconds that the GPU takes for what a command encoder made (0.7)
// and what goes wrong, as `faults`. It gives a `device`, its `time`, a `log` of its calls, and `run`, in
// which time passes. A command is a number here: the milliseconds that it takes.

((browser, faults = {}) => {
    const { looksEvery, looksOn = [], submitCost = 0, chainMs = 0.7 } = browser;
    const WAY_MS = 0.05; // of a message, from one process to the other
    const log = [];
    const events = [];
    const maps = new Set();
    const channel = new MessageChannel();
    let time = 0;
    let free = 0; // when the GPU process is
    let done = 0; // when the GPU is
    let depth = 0;
    let lose;
    const lost = new Promise((resolve) => { lose = resolve; });

    const at = (when, action) => events.push({ when, action });
    const after = (ms, action) => at(time + ms, action);

    // A message gets to the GPU process, and is looked at when that is free.
    const arrive = (action) => after(WAY_MS, () => at(Math.max(free, time), action));

    function look() {
        for (const map of [...maps].filter(({ done }) => done <= time)) {
            maps.delete(map);
            after(WAY_MS, map.resolve);
        }
    }

    function tick() {
        look();
        after(looksEvery, tick);
    }
    after(looksEvery, tick);

    const queue = {
        submit(commands) {
            log.push(commands.length ? "work" : "submit");
            arrive(() => {
                if (commands.length) done = Math.max(done, time) + commands[0];
                else free = time + submitCost;
                if (looksOn.includes("submit")) look();
            });
        },
    };

    function createBuffer() {
        log.push("create");
        let mapping = null;
        return {
            mapAsync() {
                log.push("map");
                if (faults.map) return Promise.reject(new Error("no map"));
                return new Promise((resolve, reject) => {
                    mapping = { resolve, reject };
                    if (!faults.silent) arrive(() => maps.add({ resolve, done }));
                });
            },
            unmap() {},
            destroy() {
                log.push("destroy");
                mapping?.reject(new Error("destroyed"));
            },
        };
    }

    const device = {
        queue,
        lost,
        createBuffer,
        createCommandEncoder: () => ({ copyBufferToBuffer() {}, finish: () => chainMs }),
        pushErrorScope(filter) {
            log.push("push");
            depth++;
            if (faults.push) throw new Error("no scope");
            return filter;
        },
        popErrorScope() {
            log.push("pop");
            depth--;
            if (faults.pop) return Promise.reject(new Error("no answer"));
            if (faults.atOnce) return Promise.resolve(null);
            const error = faults.memory && log.includes("create") ? { message: "full" } : null;
            return new Promise((resolve) => arrive(() => {
                if (looksOn.includes("scope")) look();
                after(WAY_MS, () => resolve(error));
            }));
        },
    };

    const turn = () => new Promise((resolve) => {
        channel.port1.onmessage = resolve;
        channel.port2.postMessage(null);
    });

    // Time passes until this is settled, or so many milliseconds are over.
    async function run(promise, ms = Infinity) {
        const end = time + ms;
        let settled = false;
        const watch = () => { settled = true; };
        promise.then(watch, watch);
        for (await turn(); !settled && time < end; await turn()) {
            events.sort((a, b) => a.when - b.when);
            const { when, action } = events.shift();
            time = when;
            action();
        }
        return settled ? promise : "pending";
    }

    const now = () => time;
    const sleep = (ms) => new Promise((resolve) => after(ms, resolve));
    return { device, log, run, now, time: { now, sleep }, after, lose, depth: () => depth };
})
