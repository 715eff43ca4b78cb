// Parts of a long sound for models that take a part at a time, cut where it is quiet: tasks/sound/speech/windows.py.

const SEARCHED = 5; // seconds at the end of a window, where a long sound is cut at its quietest place
const FRAME = 0.02; // seconds per measurement of loudness

// Returns the end of a part of a sound: the middle of the quietest frame in the last seconds of the longest part.
export function endOf(samples, start, longest, rate) {
    const latest = start + longest;
    if (latest >= samples.length) return samples.length;
    const frame = Math.max(1, Math.trunc(FRAME * rate));
    const frames = Math.floor(Math.min(SEARCHED * rate, Math.floor(longest / 2)) / frame);
    if (!frames) return latest;
    const first = latest - frames * frame;
    const loudness = Array.from({ length: frames }, (_, i) => (
        samples.subarray(first + i * frame, first + (i + 1) * frame).reduce((sum, value) => sum + value * value, 0)
    ));
    return first + loudness.indexOf(Math.min(...loudness)) * frame + Math.floor(frame / 2);
}
