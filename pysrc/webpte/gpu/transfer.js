// How constants get from a file into GPU buffers without ever being in memory as a whole.
//
// Evaluates to a function that makes `transfer` for one engine: its device, its buffers by number,
// its `check` that nothing went wrong so far, and `failure` to make errors with a name.

((device, buffers, check, failure) => {
    const CHUNK = 32 * 1024 * 1024; // constants are read and written in parts of this size

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

    // The parts in which one transfer is read: aligned, so that each is a valid write.
    function* partsOf([bufferId, offset, size, convert]) {
        const { from, to } = converters[convert] ?? { from: 1, to: 1 };
        for (let start = 0; start < size; start += CHUNK) {
            const length = Math.min(CHUNK, size - start);
            yield { bufferId, from: offset + start, length, target: (start / from) * to, convert };
        }
    }

    // Neighbours in the file are read together: requests cost more than the bytes between.
    function windowsOf(parts) {
        const windows = [];
        for (const part of parts) {
            const last = windows.at(-1);
            const end = part.from + part.length;
            if (last && end - last.from <= CHUNK && part.from - (last.from + last.length) <= 65536) {
                last.length = Math.max(last.length, end - last.from);
                last.parts.push(part);
            } else {
                windows.push({ from: part.from, length: part.length, parts: [part] });
            }
        }
        return windows;
    }

    function writePart(part, bytes, offset) {
        const converter = converters[part.convert];
        let data = new Uint8Array(bytes, offset, part.length);
        if (converter) data = new Uint8Array(converter.of(data.slice().buffer).buffer);
        const whole = data.byteLength & ~3;
        const buffer = buffers.get(part.bufferId);
        if (whole) device.queue.writeBuffer(buffer, part.target, data, 0, whole);
        if (whole < data.byteLength) {
            const tail = new Uint8Array(4);
            tail.set(data.subarray(whole));
            device.queue.writeBuffer(buffer, part.target + whole, tail);
        }
    }

    // Reads ahead of what it writes, but never holds more than a few chunks.
    return async function transfer(file, transfers, total, progress) {
        const parts = JSON.parse(transfers).flatMap((transfer) => [...partsOf(transfer)]);
        const windows = windowsOf(parts);
        const reading = [];
        let started = 0;
        let done = 0;
        for (const window of windows) {
            while (started < windows.length && reading.length < 3) {
                const { from, length } = windows[started++];
                const read = file.read(from, length);
                read.catch(() => {}); // it is awaited below, perhaps after another one failed
                reading.push(read);
            }
            const bytes = await reading.shift();
            check();
            if (!window.parts.every(({ bufferId }) => buffers.has(bufferId))) {
                throw failure("Closed", "the buffers of these constants were given back");
            }
            for (const part of window.parts) {
                writePart(part, bytes, part.from - window.from);
                done += part.length;
            }
            progress?.("constants", done, total);
        }
    };
})
