// Sounds as a program takes them: one channel at the program's rate, in frames that overlap.

import { InputError } from "../errors.js";

const LONGEST_SECONDS = 600;

// Returns the samples of a sound at a rate. `source`: samples (a Float32Array), or a file (a Blob) or its address, which
// the browser decodes, mixes to one channel and resamples.
export async function samplesOf(source, rate) {
    if (source instanceof Float32Array) return source;
    try {
        const file = typeof source === "string" || source instanceof URL ? await fetch(source) : source;
        const sound = await new OfflineAudioContext(1, 1, rate).decodeAudioData(await file.arrayBuffer());
        const count = Math.max(1, Math.min(sound.length, LONGEST_SECONDS * rate));
        const mixer = new OfflineAudioContext(1, count, rate);
        const player = new AudioBufferSourceNode(mixer, { buffer: sound });
        player.connect(mixer.destination);
        player.start();
        return (await mixer.startRendering()).getChannelData(0);
    } catch (error) {
        throw new InputError(`the browser cannot read this sound (${error.message})`, { cause: error });
    }
}

// Returns { calls, count }: the frames (frames, window) of each call, and how many frames the sound has. A frame has
// `hop` new samples after the last samples of the frame before; the first begins with silence.
export function framesOf(samples, hop, [frames, window]) {
    const count = Math.max(1, Math.ceil(samples.length / hop));
    const padded = new Float32Array(window - hop + Math.ceil(count / frames) * frames * hop);
    padded.set(samples, window - hop);
    const calls = [];
    for (let first = 0; first < count; first += frames) {
        const data = new Float32Array(frames * window);
        for (let i = 0; i < frames; i++) data.set(padded.subarray((first + i) * hop, (first + i) * hop + window), i * window);
        calls.push({ data, shape: [frames, window] });
    }
    return { calls, count };
}
