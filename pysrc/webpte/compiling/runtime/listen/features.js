// Log-mel features of sounds, as tasks/sound/speech/log_mel.py computes them: in 64 bits, until they are rounded at the end.

const HIGHEST = 8000; // Hz
const LEAST = 1e-10; // power, before the logarithm
const RANGE = 8; // powers of ten below the loudest
const LINEAR_HZ = 1000; // up to here, mels are proportional to Hz
const LINEAR_MELS = 15;
const LOG_STEP = Math.log(6.4) / 27;

const mels = (hertz) => (hertz < LINEAR_HZ ? (hertz * LINEAR_MELS) / LINEAR_HZ : LINEAR_MELS + Math.log(hertz / LINEAR_HZ) / LOG_STEP);
const hertz = (mel) => (mel < LINEAR_MELS ? (mel * LINEAR_HZ) / LINEAR_MELS : LINEAR_HZ * Math.exp(LOG_STEP * (mel - LINEAR_MELS)));

const even = (low, high, count) => Array.from({ length: count }, (_, i) => low + ((high - low) * i) / (count - 1));

// The weights of frequencies in each band: [first, weights], which are 0 elsewhere.
function filtersOf({ bands, fft, rate }) {
    const centers = even(0, mels(HIGHEST), bands + 2).map(hertz);
    const places = even(0, Math.floor(rate / 2), Math.floor(fft / 2) + 1);
    return Array.from({ length: bands }, (_, band) => {
        const [low, middle, high] = centers.slice(band, band + 3);
        const weights = places.map((at) => Math.max(0, Math.min((at - low) / (middle - low), (high - at) / (high - middle))) * (2 / (high - low)));
        const first = weights.findIndex((weight) => weight > 0);
        return first < 0 ? [0, []] : [first, weights.slice(first, weights.findLastIndex((weight) => weight > 0) + 1)];
    });
}

function factorOf(n) {
    for (let p = 2; p * p <= n; p++) if (n % p === 0) return p;
    return n;
}

// Returns a function that computes the powers of the frequencies 0 to n/2 of n samples, by Cooley and Tukey.
function makePowers(n) {
    const cos = Float64Array.from({ length: n }, (_, i) => Math.cos((2 * Math.PI * i) / n));
    const sin = Float64Array.from({ length: n }, (_, i) => -Math.sin((2 * Math.PI * i) / n));

    // The spectrum of `size` samples, every `stride` from `start` on.
    function spectrum(samples, start, stride, size) {
        const re = new Float64Array(size);
        const im = new Float64Array(size);
        if (size === 1) {
            re[0] = samples[start];
            return { re, im };
        }
        const p = factorOf(size);
        const part = size / p;
        const parts = Array.from({ length: p }, (_, j) => spectrum(samples, start + j * stride, stride * p, part));
        for (let k = 0; k < size; k++) {
            for (let j = 0; j < p; j++) {
                const turn = (j * k * stride) % n;
                const { re: x, im: y } = parts[j];
                re[k] += x[k % part] * cos[turn] - y[k % part] * sin[turn];
                im[k] += x[k % part] * sin[turn] + y[k % part] * cos[turn];
            }
        }
        return { re, im };
    }
    return (samples) => {
        const { re, im } = spectrum(samples, 0, 1, n);
        return Float64Array.from({ length: Math.floor(n / 2) + 1 }, (_, i) => re[i] ** 2 + im[i] ** 2);
    };
}

// Returns a function of a sound: its features { data (bands, frames), frames }; silence fills a window.
export function makeFeatures({ bands, fft, hop, rate, longest }) {
    const filters = filtersOf({ bands, fft, rate });
    const powersOf = makePowers(fft);
    const window = Float64Array.from({ length: fft }, (_, i) => 0.5 - 0.5 * Math.cos((2 * Math.PI * i) / fft));
    const half = Math.floor(fft / 2);
    return (samples) => {
        const size = Math.max(samples.length, longest);
        const mirrored = (at) => samples[at < 0 ? -at : at < size ? at : 2 * (size - 1) - at] ?? 0;
        const frames = Math.floor((size + 2 * half - fft) / hop); // Whisper leaves the last frame out
        const logs = new Float64Array(bands * frames);
        const frame = new Float64Array(fft);
        let loudest = -Infinity;
        for (let at = 0; at < frames; at++) {
            for (let i = 0; i < fft; i++) frame[i] = mirrored(at * hop + i - half) * window[i];
            const powers = powersOf(frame);
            filters.forEach(([first, weights], band) => {
                let sum = 0;
                for (let i = 0; i < weights.length; i++) sum += powers[first + i] * weights[i];
                const log = Math.log10(Math.max(sum, LEAST));
                logs[band * frames + at] = log;
                if (log > loudest) loudest = log;
            });
        }
        return { data: Float32Array.from(logs, (log) => (Math.max(log, loudest - RANGE) + 4) / 4), frames };
    };
}
