// Waits for the results of a submission.
//
// Browsers notice late that the GPU is done. Chromium polls it every 2 to 3 ms unless commands arrive,
// Firefox every 100 ms unless something is submitted; others may poll all the time. A nudge makes a
// browser poll at once. Which nudge helps is measured once per device, because the nudge that helps in
// one browser hurts in another. Nudges never cost more than they can win: see `until`. Where one saves much,
// as in Firefox, long waits are nudged, too, with pauses.
//
// Evaluates to an object. `open` returns a waiter that can measure, `makeWaiter` one that nudges in a
// given way. `now` is a clock in milliseconds.

(() => {
    const CHAIN = 150; // dependent copies: enough that they are not done at once in any browser
    const ROUNDS = 3; // measurements of every way,
    const ENOUGH_MS = 10; // but no round starts after this time
    const GIVE_UP_MS = 1000; // measuring ends here if the GPU is busy with other work
    const CLEARLY = { ratio: 0.75, ms: 0.3 }; // how much faster a way must be to be chosen
    const WORTH = 10; // no nudge upon nudge for longer than this many times the time that one saves
    const MOST_PATIENCE_MS = 250;
    const PAUSES = 10; // of this share of what a nudge saves, between the nudges of a long wait,
    const LEAST_PAUSE_MS = 5; // unless they were shorter than this: then the browser polls soon enough
    const MOST_TRIPS = 1000; // nudges while the clock stands still

    const TIME = {
        now: () => performance.now(),
        sleep: (ms) => new Promise((resolve) => setTimeout(resolve, ms)),
    };

    // Pushes and pops an error scope in one turn: no error can be caught in it, and errors of other code
    // stay in their own scopes.
    function roundTrip(device) {
        device.pushErrorScope("validation");
        return device.popErrorScope();
    }

    // Ways to make a browser poll. Both return a promise that settles when the GPU process has answered.
    const nudges = {
        scope: roundTrip,
        submit(device) {
            device.queue.submit([]);
            return roundTrip(device);
        },
    };

    // Returns a waiter that nudges in this way: nudge upon nudge for at most `patience` milliseconds per wait, and
    // then every `pause` milliseconds, if that is not 0. "plain" never nudges. `sleep` waits so many milliseconds.
    function makeWaiter(device, way, patience = 0, pause = 0, { now, sleep } = TIME) {
        const nudge = nudges[way];
        const lasted = new WeakMap(); // by plan: milliseconds of its last wait
        const open = new Set(); // waits that nudge
        let over = !nudge;
        let nudging = false;
        let wake = null; // ends the pause between two nudges
        const stop = () => {
            over = true;
            open.clear();
        };
        device.lost.then(stop);

        const isLong = (wait) => wait.end <= now();

        // One loop nudges for all open waits. It pauses while all of them are long.
        async function nudgeAll() {
            nudging = true;
            try {
                let last = now();
                let trips = 0;
                while (open.size) {
                    await nudge(device);
                    const time = now();
                    trips = time > last ? 0 : trips + 1;
                    last = time;
                    if (trips >= MOST_TRIPS) open.clear();
                    if (!pause) for (const wait of [...open].filter(isLong)) open.delete(wait);
                    else if (open.size && [...open].every(isLong)) {
                        await Promise.race([sleep(pause), new Promise((resolve) => { wake = resolve; })]);
                    }
                }
            } catch {
                stop(); // an error of the device also rejects the promises that are waited for
            }
            nudging = false;
        }

        return {
            // Awaits `pending`, and nudges meanwhile. If the last wait for `plan` (any object) was longer than the
            // patience, this one counts as long from its start: it is nudged with pauses, or not at all.
            async until(pending, plan) {
                if (over) return pending;
                const begun = now();
                const long = lasted.get(plan) > patience;
                const wait = { end: long ? begun : begun + patience };
                if (pause || !long) open.add(wait);
                wake?.();
                if (open.size && !nudging) nudgeAll();
                try {
                    return await pending;
                } finally {
                    open.delete(wait);
                    lasted.set(plan, now() - begun);
                    wake?.();
                }
            },
        };
    }

    // GPU work that needs no pipeline, with a promise of its end.
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

    // Promises the median milliseconds of the chain for each way.
    async function measure(device, chain, time) {
        const ways = ["plain", "scope", "submit"];
        const waiters = ways.map((way) => makeWaiter(device, way, MOST_PATIENCE_MS, 0, time));
        const times = ways.map(() => []);
        const timed = async (waiter) => {
            const begun = time.now();
            await waiter.until(chain.submit(), {});
            const took = time.now() - begun;
            chain.again();
            return took;
        };
        await timed(waiters.at(-1)); // the first run has one-time costs; this way is fast in every browser
        const begun = time.now();
        for (let round = 0; round < ROUNDS && (!round || time.now() - begun < ENOUGH_MS); round++) {
            for (const [i, waiter] of waiters.entries()) times[i].push(await timed(waiter));
        }
        return Object.fromEntries(ways.map((way, i) => [way, median(times[i])]));
    }

    function median(times) {
        const sorted = times.toSorted((a, b) => a - b);
        const middle = (sorted.length - 1) / 2;
        return (sorted[Math.floor(middle)] + sorted[Math.ceil(middle)]) / 2;
    }

    // Chooses "plain", unless a later way is clearly faster than the best before it.
    function choose(ms) {
        const better = (a, b) => ms[a] <= CLEARLY.ratio * ms[b] && ms[b] - ms[a] >= CLEARLY.ms;
        return Object.keys(ms).reduce((best, way) => (better(way, best) ? way : best), "plain");
    }

    // Runs `make` inside error scopes, so that its errors reach only the caller.
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

    // Promises the medians; an empty object if measuring fails or takes too long.
    async function measured(device, time, giveUpMs) {
        let chain = null;
        let timer = null;
        try {
            await check(device, () => { chain = makeChain(device); });
            const late = new Promise((_, reject) => { timer = setTimeout(reject, giveUpMs); });
            return await Promise.race([measure(device, chain, time), late]);
        } catch {
            return {};
        } finally {
            clearTimeout(timer);
            chain?.destroy();
        }
    }

    return {
        makeWaiter,

        // Opens a waiter. Until `measure` has chosen a way, it nudges by submissions, which every browser notices.
        // A software adapter is not nudged: nudges would take time from the CPU that computes. `way` skips the
        // measurement.
        open(device, software, way, { time = TIME, giveUpMs = GIVE_UP_MS } = {}) {
            let chosen = way ?? (software ? "plain" : "submit");
            let ms = {};
            let waiter = makeWaiter(device, chosen, MOST_PATIENCE_MS, 0, time);
            let done = Boolean(software || way);
            let measuring = null;

            async function measureOnce() {
                ms = await measured(device, time, giveUpMs);
                chosen = choose(ms);
                const wins = ms.plain - ms[chosen];
                const patience = Math.min(WORTH * wins, MOST_PATIENCE_MS);
                const pause = wins / PAUSES >= LEAST_PAUSE_MS ? wins / PAUSES : 0;
                waiter = makeWaiter(device, chosen, patience, pause, time);
                done = "plain" in ms;
                measuring = null;
            }

            return {
                until: (pending, plan) => waiter.until(pending, plan),
                describe: () => JSON.stringify({ way: chosen, ms }),
                // Chooses the way; what else this thread does meanwhile, for example a download, would falsify
                // the times. Once it was measured, this does nothing.
                async measure() {
                    if (!done) await (measuring ??= measureOnce());
                },
            };
        },
    };
})()
