// Requests that are repeated: over slow networks, servers that are busy, and connections that break.
//
// Evaluates to { makeControl, makeAttempts, failure }. A control holds the limits of a download and can pause it:
//     attempts   without a byte in between, before a request fails for good
//     stall      seconds without a byte, after which a request counts as failed
//     offline    seconds to wait for the network, or for a server that says when it will answer (Retry-After)
// Errors with `final` are not worth another attempt; `wait` has the seconds that a server asked for.

(() => {
    const LIMITS = { attempts: 8, stall: 30, offline: 300 };
    const FIRST_WAIT = 0.5; // seconds before the second attempt; twice as long before each further one
    const LONGEST_WAIT = 20;

    const failure = (message, more = {}) => Object.assign(new Error(message), { name: "SourceError", ...more });
    const PAUSED = failure("the download was paused");

    const isOffline = () => globalThis.navigator?.onLine === false;

    function makeControl(text) {
        const limits = { ...LIMITS, ...JSON.parse(text ?? "{}") };
        const requests = new Set(); // functions that end the current requests
        let paused = null; // a promise, while it is
        let go = null;
        return {
            limits,
            requests,
            waiting: "", // why no bytes come at the moment, for people
            whenResumed: () => paused,
            pause() {
                paused ??= new Promise((resolve) => { go = resolve; });
                for (const end of [...requests]) end(PAUSED);
            },
            resume() {
                paused = null;
                go?.();
            },
        };
    }

    // Settles like `promise`, but rejects as soon as the signal is aborted.
    function orAborted(promise, signal) {
        if (!signal) return promise;
        return new Promise((resolve, reject) => {
            const stop = () => reject(signal.reason);
            if (signal.aborted) stop();
            signal.addEventListener("abort", stop, { once: true });
            const settled = () => signal.removeEventListener("abort", stop);
            promise.then(resolve, reject).finally(settled);
        });
    }

    // Waits for some seconds, or until the browser says that it is online again.
    async function sleep(seconds, signal) {
        let end;
        const over = new Promise((resolve) => { end = resolve; });
        const timer = setTimeout(end, 1000 * seconds);
        globalThis.addEventListener?.("online", end);
        try {
            await orAborted(over, signal);
        } finally {
            clearTimeout(timer);
            globalThis.removeEventListener?.("online", end);
        }
    }

    // One request: `step` awaits a part of it (its headers, or some bytes) for at most `stall` seconds.
    function makeRequest(control, signal, stall) {
        const aborting = new AbortController();
        let fail;
        const failed = new Promise((_, reject) => { fail = reject; });
        failed.catch(() => {}); // nobody may be waiting when it fails
        const end = (reason) => {
            fail(reason);
            aborting.abort(reason);
        };
        const cancel = () => end(signal.reason);
        signal?.addEventListener("abort", cancel);
        if (signal?.aborted) cancel();
        control.requests.add(end);
        return {
            signal: aborting.signal,
            async step(promise) {
                const late = setTimeout(() => end(failure(`no byte came for ${stall} s`)), 1000 * stall);
                promise.catch(() => {});
                try {
                    return await Promise.race([promise, failed]);
                } finally {
                    clearTimeout(late);
                }
            },
            end() {
                signal?.removeEventListener("abort", cancel);
                control.requests.delete(end);
                aborting.abort();
            },
        };
    }

    // The attempts at one piece of work. `most` and `stall` replace those of the control; without `begun` it
    // does not wait for a network: people who open a file offline want to know that.
    function makeAttempts(control, signal, given = {}) {
        const { most = control.limits.attempts, stall = control.limits.stall, begun = true } = given;
        let failed = 0;

        async function waitAfter(error) {
            const { offline } = control.limits;
            if (begun && isOffline()) {
                control.waiting = "offline";
                await sleep(offline, signal);
                if (isOffline()) throw failure(`${error.message}; there was no network for ${offline} s`);
                return;
            }
            failed += 1;
            const times = failed === 1 ? "" : ` (tried ${failed} times)`;
            if (failed >= most || isOffline()) throw failure(`${error.message}${times}`, { cause: error });
            if (error.wait > offline) throw failure(`${error.message}; it asks to come back in ${error.wait} s`);
            const grown = Math.min(LONGEST_WAIT, FIRST_WAIT * 2 ** (failed - 1));
            control.waiting = error.message;
            await sleep(Math.max(error.wait ?? 0, grown * (0.5 + Math.random() / 2)), signal);
        }

        return {
            // Begins a request, once the download is not paused.
            async begin() {
                while (control.whenResumed()) await orAborted(control.whenResumed(), signal);
                signal?.throwIfAborted();
                return makeRequest(control, signal, stall);
            },
            // Bytes came: failures are counted anew.
            advance() {
                failed = 0;
                control.waiting = "";
            },
            // Returns when it is time for another attempt; throws if there is none.
            async failedWith(error) {
                signal?.throwIfAborted();
                if (error === PAUSED) return;
                if (error.final) throw error;
                await waitAfter(error);
            },
        };
    }

    return { makeControl, makeAttempts, failure };
})()
