// How constants get from a file into GPU buffers without ever being in memory as a whole.
//
// Evaluates to a function that makes `transfer` for one engine: its device, its buffers by number,
// its `check` that nothing went wrong so far, and `failure` to make errors with a name.
//
// A few ranges of the file are asked for at once. Each is streamed through one small block of memory,
// which is written to the GPU whenever it is full: copying and clearing memory is what loading costs.

((device, buffers, check, failure, sizes = {}) => {
    const MB = 1024 * 1024;
    const {
        windowBytes = 32 * MB, // of the file, asked for in one request
        blockBytes = 1 * MB, // of a window, in memory at once
        lanes = 3, // windows at a time
        stepBytes = 8 * MB, // between two reports of progress
    } = sizes;
    const WHOLE = 8; // bytes that hold whole elements of every type, and whole words

    const converters = {
        float64: { from: 8, to: 4, of: (bytes) => Float32Array.from(new Float64Array(bytes)) },
        float16: { from: 2, to: 4, of: (bytes) => Float32Array.from(new Uint16Array(bytes), halfToFloat) },
        int64: {
            from: 8, to: 4, of: (bytes) => {
                const words = new Int32Array(bytes);
                const low = new Int32Array(words.length / 2);
                for (let i = 0; i < low.length; i++) {
                    low[i] = words[2 * i];
                    if (words[2 * i + 1] !== low[i] >> 31) {
                        throw failure("Overflow", "an int64 constant does not fit into 32 bits");
                    }
                }
                return low;
            },
        },
    };

    function halfToFloat(half) {
        const sign = half & 0x8000 ? -1 : 1;
        const exponent = (half >> 10) & 0x1f;
        const fraction = half & 0x3ff;
        if (exponent === 0) return sign * fraction * 2 ** -24;
        if (exponent === 31) return fraction ? NaN : sign * Infinity;
        return sign * (1 + fraction / 1024) * 2 ** (exponent - 15);
    }

    // Values with the same bytes are read once, and written to the buffer of each.
    function distinct(transfers) {
        const found = new Map();
        for (const [bufferId, ...range] of transfers) {
            const key = range.join();
            if (!found.has(key)) found.set(key, { bufferIds: [], range });
            found.get(key).bufferIds.push(bufferId);
        }
        return [...found.values()];
    }

    // The parts in which one transfer is read: aligned, so that each is a valid write.
    function* partsOf({ bufferIds, range: [offset, size, convert] }) {
        for (let start = 0; start < size; start += windowBytes) {
            const length = Math.min(windowBytes, size - start);
            yield { bufferIds, from: offset + start, length, start, convert };
        }
    }

    // Neighbours in the file are read together: requests cost more than the bytes between.
    function windowsOf(parts) {
        const windows = [];
        for (const part of parts) {
            const last = windows.at(-1);
            const gap = last ? part.from - (last.from + last.length) : -1;
            if (gap >= 0 && gap <= 65536 && last.length + gap + part.length <= windowBytes) {
                last.length += gap + part.length;
                last.parts.push(part);
            } else {
                windows.push({ from: part.from, length: part.length, parts: [part] });
            }
        }
        return windows;
    }

    // `start` is where these bytes begin in the constant as it is in the file.
    function write({ bufferIds, convert }, start, bytes) {
        const { from = 1, to = 1, of } = converters[convert] ?? {};
        const data = of ? new Uint8Array(of(bytes.slice().buffer).buffer) : bytes;
        const target = (start / from) * to;
        const whole = data.byteLength & ~3;
        for (const id of bufferIds) {
            const buffer = buffers.get(id);
            if (!buffer) throw failure("Closed", "the buffers of these constants were given back");
            if (whole) device.queue.writeBuffer(buffer, target, data, 0, whole);
            if (whole < data.byteLength) {
                const tail = new Uint8Array(4);
                tail.set(data.subarray(whole));
                device.queue.writeBuffer(buffer, target + whole, tail);
            }
        }
    }

    // Takes a window's bytes as they come: `take` writes what it can of a block that follows on what
    // was taken before, and gives the number of bytes that it will not need again.
    function makeTaker(window, wrote) {
        let position = window.from;
        let next = 0;
        return function take(block) {
            const begin = position;
            const end = begin + block.byteLength;
            while (next < window.parts.length && position < end) {
                const part = window.parts[next];
                position = Math.min(Math.max(position, part.from), end);
                if (position < part.from) break; // the gap before it goes on
                const left = part.from + part.length - position;
                let here = Math.min(left, end - position);
                if (here < left) here -= (position + here - part.from) % WHOLE;
                if (!here) break;
                const at = position - begin;
                write(part, part.start + position - part.from, block.subarray(at, at + here));
                wrote(here * part.bufferIds.length);
                position += here;
                if (here === left) next++;
            }
            if (next === window.parts.length) position = end;
            return position - begin;
        };
    }

    async function streamWindow(file, window, take, signal) {
        const source = await file.open(window.from, window.length, signal);
        let block = new Uint8Array(blockBytes);
        let came = 0;
        for (let held = 0; ;) {
            const { value, done } = await source.read(block.subarray(held));
            if (signal.aborted) return;
            if (value) {
                block = new Uint8Array(value.buffer); // the memory moves along with what is read
                held = value.byteOffset + value.byteLength;
                came += value.byteLength;
            }
            if (held < block.byteLength && !done) continue;
            check();
            const taken = take(block.subarray(0, held));
            if (done) break;
            block.copyWithin(0, taken, held);
            held -= taken;
        }
        if (came !== window.length) {
            throw new Error(`${came} bytes came of the ${window.length} from byte ${window.from} on`);
        }
    }

    return async function transfer(file, transfers, total, progress) {
        const windows = windowsOf(distinct(JSON.parse(transfers)).flatMap((each) => [...partsOf(each)]));
        const aborting = new AbortController();
        let next = 0;
        let done = 0;
        let told = 0;
        const tell = (bytes) => {
            done += bytes;
            if (done - told < stepBytes && done < total) return;
            told = done;
            progress?.("constants", done, total);
        };
        async function lane() {
            while (next < windows.length && !aborting.signal.aborted) {
                const window = windows[next++];
                await streamWindow(file, window, makeTaker(window, tell), aborting.signal);
            }
        }
        try {
            await Promise.all(Array.from({ length: lanes }, lane));
        } finally {
            aborting.abort(); // what else is under way, if one lane failed
        }
    };
})
