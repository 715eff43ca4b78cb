// Whisper's timestamps: tokens for times, their allowed places, and the segments between them (tasks/.../timestamps.py).

function logSum(logits) {
    let largest = -Infinity;
    for (const value of logits) if (value > largest) largest = value;
    if (largest === -Infinity) return largest;
    let sum = 0;
    for (const value of logits) sum += Math.exp(value - largest);
    return largest + Math.log(sum);
}

// Returns a function that sets the logits of tokens that may not come next to -Infinity: timestamps come in pairs and in
// order, and wherever they are likely. `first` is that of 0 seconds; the token before it means "no timestamps".
export function makeRule(first, latest, end) {
    return (generated, logits) => {
        const never = (from, to = logits.length) => logits.fill(-Infinity, Math.max(from, 0), to);
        never(first - 1, first);
        if (!generated.length) {
            never(0, first);
            if (latest !== null) never(first + latest + 1);
            return;
        }
        const last = generated.at(-1);
        const opened = generated.length < 2 || generated.at(-2) >= first;
        if (last >= first) {
            if (opened) never(first);
            else never(0, end);
        }
        const times = generated.filter((token) => token >= first);
        if (times.length) {
            const again = last >= first && !opened; // a pair may have equal times
            never(first, times.at(-1) + (again ? 0 : 1));
        }
        let most = -Infinity;
        for (let i = 0; i < first; i++) if (logits[i] > most) most = logits[i];
        if (logSum(logits.subarray(first)) > most) never(0, first);
    };
}

// Returns the segments of a window's tokens, lists of tokens, and the end of the last segment, in timestamps. `length` is
// the window's. The tokens after the last pair of timestamps are dropped: the next window begins there.
export function split(tokens, first, length) {
    const isTime = tokens.map((token) => token >= first);
    const cuts = tokens.flatMap((_, at) => (at + 1 < tokens.length && isTime[at] && isTime[at + 1] ? [at + 1] : []));
    if (!cuts.length) return [[tokens], length];
    const isWhole = isTime.length > 1 && !isTime.at(-2) && isTime.at(-1); // no speech after the last time
    if (isWhole) cuts.push(tokens.length);
    const segments = cuts.map((cut, i) => tokens.slice(cuts[i - 1] ?? 0, cut));
    return [segments, isWhole ? length : tokens[cuts.at(-1) - 1] - first];
}
