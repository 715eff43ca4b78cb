// How the results of a submission are waited for.
//
// A browser does not tell at once that the GPU is done. Chromium looks every 2 to 3 ms unless
// commands arrive, Firefox every 100 ms unless something is submitted; others may look all the time.
// Whoever waits can therefore nudge it, and which nudge helps is measured once per device, because
// what helps in one browser hurts in another. A nudge never costs more than it can win: see `until`.
//
// Evaluates to an object. `open` measures and makes a waiter, `makeWaiter` makes one that nudges in a
// given way. `now` is a clock in milliseconds.

(() => {
    const CHAIN = 150; // copies that depend on each other: enough that no browser has them done at once
    const ROUNDS = 3; // every way is timed so often,
    const ENOUGH_MS = 10; // but no round begins later than this
    const GIVE_UP_MS = 1000; // a GPU that is busy with other things is not waited for
    const CLEARLY = { ratio: 0.75, ms: 0.3 }; // how much better a way has to be
    const WORTH = 10; // waits longer than so many times what a nudge wins are left alone
    const MOST_PATIENCE_MS = 250;
    const MOST_TRIPS = 1000; // nudges of one wait

    // Pushed and popped in one turn, with nothing in between: no error can be in this scope, and
    // those of other code stay in theirs.
    function roundTrip(device) {
        device.pushErrorScope("validation");
        return device.popErrorScope();
    }

    // What makes a browser look. Both give a promise that is settled when the GPU process answered.
    const nudges = {
        scope: roundTrip,
        submit(device) {
            device.queue.submit([]);
            return roundTrip(device);
        },
    };

    // A waiter that nudges in this way, `patience` milliseconds at most in one wait; "plain" is not at all.
    function makeWaiter(device, way, patience = 0, now = () => performance.now()) {
        const nudge = nudges[way];
        const lasted = new WeakMap(); // by plan: how long it was waited for last
        const open = new Set(); // the waits that are nudged for
        let over = !nudge;
        let nudging = false;
        const stop = () => {
            over = true;
            open.clear();
        };
        device.lost.then(stop);

        // One loop for all that wait.
        async function nudgeAll() {
            nudging = true;
            try {
                while (open.size) {
                    await nudge(device);
                    const time = now();
                    for (const wait of open) {
                        if (++wait.trips >= MOST_TRIPS || time >= wait.end) open.delete(wait);
                    }
                }
            } catch {
                stop(); // what is wrong with the device, whoever waits is told by what it waits for
            }
            nudging = false;
        }

        return {
            // What `pending` gives. It is nudged for if `plan` (any object) did not take too long the
            // last time, and no longer than patience has it: then the browser's own look comes soon
            // enough.
            async until(pending, plan) {
                if (over) return pending;
                const begun = now();
                const wait = { end: begun + patience, trips: 0 };
                if (!(lasted.get(plan) > patience)) open.add(wait);
                if (open.size && !nudging) nudgeAll();
                try {
                    return await pending;
                } finally {
                    open.delete(wait);
                    lasted.set(plan, now() - begun);
                }
            },
        };
    }

    // Work for the GPU that needs no pipeline, and the promise of its end.
    function makeChain(device) {
        const { COPY_SRC, COPY_DST, MAP_READ } = GPUBufferUsage;
        const make = (usage) => device.createBuffer({ size: 16, usage });
        const pair = [make(COPY_SRC | COPY_DST), make(COPY_SRC | COPY_DST)];
        const staging = make(MAP_READ | COPY_DST);
        let gone = false;
        return {
            submit() {
                if (gone) throw new Error("it took too long");
                const encoder = device.createCommandEncoder();
                for (let i = 0; i < CHAIN; i++) {
                    encoder.copyBufferToBuffer(pair[i % 2], 0, pair[(i + 1) % 2], 0, 16);
                }
                encoder.copyBufferToBuffer(pair[CHAIN % 2], 0, staging, 0, 16);
                device.queue.submit([encoder.finish()]);
                return staging.mapAsync(GPUMapMode.READ);
            },
            again() {
                staging.unmap();
            },
            destroy() {
                gone = true;
                for (const buffer of [...pair, staging]) buffer.destroy();
            },
        };
    }

    // Milliseconds of the chain in each way, medians.
    async function measure(device, chain, now) {
        const ways = ["plain", "scope", "submit"];
        const waiters = ways.map((way) => makeWaiter(device, way, MOST_PATIENCE_MS, now));
        const times = ways.map(() => []);
        const time = async (waiter) => {
            const begun = now();
            await waiter.until(chain.submit(), {});
            const took = now() - begun;
            chain.again();
            return took;
        };
        await time(waiters.at(-1)); // the first has one-time costs, and this way ends soon everywhere
        const begun = now();
        for (let round = 0; round < ROUNDS && (!round || now() - begun < ENOUGH_MS); round++) {
            for (const [i, waiter] of waiters.entries()) times[i].push(await time(waiter));
        }
        return Object.fromEntries(ways.map((way, i) => [way, median(times[i])]));
    }

    function median(times) {
        const sorted = times.toSorted((a, b) => a - b);
        const middle = (sorted.length - 1) / 2;
        return (sorted[Math.floor(middle)] + sorted[Math.ceil(middle)]) / 2;
    }

    // The first way that none after it is clearly better than.
    function choose(ms) {
        const better = (a, b) => ms[a] <= CLEARLY.ratio * ms[b] && ms[b] - ms[a] >= CLEARLY.ms;
        return Object.keys(ms).reduce((best, way) => (better(way, best) ? way : best), "plain");
    }

    // What the device has against the buffers is told to nobody but the caller.
    async function check(device, make) {
        device.pushErrorScope("out-of-memory");
        device.pushErrorScope("validation");
        try {
            make();
        } finally {
            const errors = await Promise.all([device.popErrorScope(), device.popErrorScope()]);
            if (errors.some(Boolean)) throw new Error("there is no memory to measure with");
        }
    }

    // The medians; none if they cannot be had, which is no reason to fail.
    async function measured(device, now, giveUpMs) {
        let chain = null;
        let timer = null;
        try {
            await check(device, () => { chain = makeChain(device); });
            const late = new Promise((_, reject) => { timer = setTimeout(reject, giveUpMs); });
            return await Promise.race([measure(device, chain, now), late]);
        } catch {
            return {};
        } finally {
            clearTimeout(timer);
            chain?.destroy();
        }
    }

    return {
        makeWaiter,

        // A waiter for a device that is idle. A software adapter is not nudged: its work is on the
        // CPU, which nudges would take from it. `way` is for those who want a certain one.
        async open(device, software, way, { now = () => performance.now(), giveUpMs = GIVE_UP_MS } = {}) {
            const ms = software || way ? {} : await measured(device, now, giveUpMs);
            const chosen = way ?? choose(ms);
            const wins = ms.plain - ms[chosen];
            const patience = Math.min(way ? MOST_PATIENCE_MS : WORTH * wins, MOST_PATIENCE_MS);
            const waiter = makeWaiter(device, chosen, patience, now);
            return { ...waiter, describe: () => JSON.stringify({ way: chosen, ms }) };
        },
    };
})()
