// Streams constants from a file into GPU buffers; a file is never in memory as a whole.
//
// Evaluates to a function that returns `uploadConstants` for one engine. It takes the engine's device, its
// buffers by number, `check` (throws if the device failed) and `failure` (makes an error with a name).
//
// A few ranges of the file are requested at a time. Each is streamed through one small block of memory,
// which is written to the GPU whenever it is full: copying and clearing memory is what loading costs.

((device, buffers, check, failure, sizes = {}) => {
    const MB = 1024 * 1024;
    const {
        rangeBytes = 32 * MB, // of the file, in one request
        blockBytes = 1 * MB, // of a range, in memory at once
        lanes = 3, // ranges at a time
        stepBytes = 8 * MB, // between two progress reports
    } = sizes;
    const UNIT = 8; // bytes: a multiple of every element size, and of a word

    const converters = {
        float64: { from: 8, to: 4, of: (bytes) => Float32Array.from(new Float64Array(bytes)) },
        float16: { from: 2, to: 4, of: (bytes) => Float32Array.from(new Uint16Array(bytes), halfToFloat) },
        bfloat16: { from: 2, to: 4, of: (bytes) => Uint32Array.from(new Uint16Array(bytes), (upper) => upper << 16) },
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

    // Constants that share their bytes in the file are read once, and written to the buffer of each.
    function distinct(transfers) {
        const found = new Map();
        for (const [bufferId, ...place] of transfers) {
            const key = place.join();
            if (!found.has(key)) found.set(key, { bufferIds: [], place });
            found.get(key).bufferIds.push(bufferId);
        }
        return [...found.values()];
    }

    // Splits a constant into parts of at most `rangeBytes`, aligned so that each is a valid write.
    function* partsOf({ bufferIds, place: [offset, size, convert] }) {
        for (let start = 0; start < size; start += rangeBytes) {
            const length = Math.min(rangeBytes, size - start);
            yield { bufferIds, from: offset + start, length, start, convert };
        }
    }

    // Joins neighbours in the file into one range: a request costs more than the bytes between them.
    function rangesOf(parts) {
        const ranges = [];
        for (const part of parts) {
            const last = ranges.at(-1);
            const gap = last ? part.from - (last.from + last.length) : -1;
            if (gap >= 0 && gap <= 65536 && last.length + gap + part.length <= rangeBytes) {
                last.length += gap + part.length;
                last.parts.push(part);
            } else {
                ranges.push({ from: part.from, length: part.length, parts: [part] });
            }
        }
        return ranges;
    }

    // Writes bytes of a constant to its buffers; `start` is their offset in the constant as stored in the file.
    function write({ bufferIds, convert }, start, bytes) {
        const { from = 1, to = 1, of } = converters[convert] ?? {};
        const data = of ? new Uint8Array(of(bytes.slice().buffer).buffer) : bytes;
        const target = (start / from) * to;
        const whole = data.byteLength & ~3;
        for (const id of bufferIds) {
            const buffer = buffers.get(id);
            if (!buffer) throw failure("Closed", "the buffers of these constants were destroyed");
            if (whole) device.queue.writeBuffer(buffer, target, data, 0, whole);
            if (whole < data.byteLength) {
                const tail = new Uint8Array(4);
                tail.set(data.subarray(whole));
                device.queue.writeBuffer(buffer, target + whole, tail);
            }
        }
    }

    // Returns a function that takes a range's bytes block by block. It writes all complete elements of a
    // block, and returns how many of the block's bytes are done; the next block begins after these.
    function makeTaker(range, wrote) {
        let position = range.from;
        let next = 0;
        return function take(block) {
            const begin = position;
            const end = begin + block.byteLength;
            while (next < range.parts.length && position < end) {
                const part = range.parts[next];
                position = Math.min(Math.max(position, part.from), end);
                if (position < part.from) break; // still in the gap before this part
                const left = part.from + part.length - position;
                let here = Math.min(left, end - position);
                if (here < left) here -= (position + here - part.from) % UNIT;
                if (!here) break;
                const at = position - begin;
                write(part, part.start + position - part.from, block.subarray(at, at + here));
                wrote(here * part.bufferIds.length);
                position += here;
                if (here === left) next++;
            }
            if (next === range.parts.length) position = end;
            return position - begin;
        };
    }

    async function streamRange(file, range, take, signal) {
        const source = await file.open(range.from, range.length, signal);
        let block = new Uint8Array(blockBytes);
        let received = 0;
        for (let held = 0; ;) {
            const { value, done } = await source.read(block.subarray(held));
            signal.throwIfAborted();
            if (value) {
                block = new Uint8Array(value.buffer); // a BYOB read moves the memory into its result
                held = value.byteOffset + value.byteLength;
                received += value.byteLength;
            }
            if (held < block.byteLength && !done) continue;
            check();
            const taken = take(block.subarray(0, held));
            if (done) break;
            block.copyWithin(0, taken, held);
            held -= taken;
        }
        if (received !== range.length) {
            throw new Error(`received ${received} of ${range.length} bytes from byte ${range.from} on`);
        }
    }

    return async function uploadConstants(file, transfers, total, progress, signal) {
        const ranges = rangesOf(distinct(JSON.parse(transfers)).flatMap((each) => [...partsOf(each)]));
        const aborting = new AbortController();
        signal?.addEventListener("abort", () => aborting.abort(signal.reason));
        let next = 0;
        let done = 0;
        let reported = 0;
        const report = (bytes) => {
            done += bytes;
            if (signal?.aborted || (done - reported < stepBytes && done < total)) return;
            reported = done;
            progress?.("constants", done, total);
        };
        async function lane() {
            while (next < ranges.length && !aborting.signal.aborted) {
                const range = ranges[next++];
                await streamRange(file, range, makeTaker(range, report), aborting.signal);
            }
        }
        try {
            await Promise.all(Array.from({ length: lanes }, lane));
        } finally {
            aborting.abort(); // if one lane failed, stop the others
        }
    };
})
