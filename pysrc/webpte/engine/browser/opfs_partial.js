// Files of the library that are being written, in any order, and that can be continued later.
//
// The bytes of a file are in a folder of segments. A segment is named by the offset of its first byte, and is
// written in one step when it is closed: so the names and sizes of the segments say which bytes are there,
// whenever the tab is closed. A journal, KEY.part.json, says which version of which file they belong to.
//
// Evaluates to a function of the values of opfs_disk.js and plain_errors.js.

((disk, plain) => {
    const MB = 1024 * 1024;
    const BACKLOG = 16 * MB; // fetched and not on disk yet; a load that is faster than the disk waits
    const SEGMENT = 8 * MB; // the largest one
    const OLD = 10_000; // milliseconds after which a segment is closed, if it has at least
    const SMALL = 1 * MB;
    const OPEN = 6; // segments at a time
    const BLOCK = 1 * MB; // read in one step of the parts that the load did not read

    // The parts of [from, to) that are not in `covered`, which is sorted.
    function gaps(covered, from, to) {
        const found = [];
        for (const { from: begin, to: end } of covered) {
            if (begin >= to) break;
            if (begin > from) found.push({ from, to: begin });
            from = Math.max(from, end);
        }
        if (from < to) found.push({ from, to });
        return found;
    }

    function joined(covered, from, to) {
        const apart = covered.filter((one) => one.to < from || one.from > to);
        const touching = covered.filter((one) => one.to >= from && one.from <= to);
        const begin = Math.min(from, ...touching.map((one) => one.from));
        const end = Math.max(to, ...touching.map((one) => one.to));
        return [...apart, { from: begin, to: end }].sort((a, b) => a.from - b.from);
    }

    const cover = (segments) => segments.reduce((covered, { from, to }) => joined(covered, from, to), []);
    const count = (segments) => cover(segments).reduce((sum, { from, to }) => sum + to - from, 0);

    // The segments in a folder, sorted: { from, to, file }.
    async function segmentsOf(place, name) {
        const folder = await disk.orNull(place.getDirectoryHandle(name));
        const handles = folder ? await Array.fromAsync(folder.values()) : [];
        const files = await Promise.all(handles.map((handle) => disk.orNull(handle.getFile())));
        const segments = files.flatMap((file) => {
            const from = Number(file?.name);
            return file?.size && Number.isSafeInteger(from) ? [{ from, to: from + file.size, file }] : [];
        });
        return segments.sort((a, b) => a.from - b.from);
    }

    // A Blob of all bytes, in order; undefined if some are missing.
    function blobOf(segments, size) {
        let at = 0;
        const parts = [];
        for (const { from, to, file } of segments) {
            if (from > at) return undefined;
            if (to > at) parts.push(file.slice(at - from));
            at = Math.max(at, to);
        }
        return at === size ? new Blob(parts) : undefined;
    }

    // What is there of a file that has this journal; also what another tab is writing.
    function makeStore(segments) {
        let kept = segments;
        return {
            pieceAt: (offset) => kept.find(({ from, to }) => from <= offset && offset < to),
            nextAfter: (offset) => Math.min(Infinity, ...kept.filter(({ from }) => from > offset).map(({ from }) => from)),
            lose: (piece) => { kept = kept.filter((one) => one !== piece); },
            take: () => {},
            add: (piece) => { kept = [...kept, piece].sort((a, b) => a.from - b.from); },
            all: () => kept,
        };
    }

    // Writes one file. `names` has those of its folder and its journal, `release` releases its lock.
    async function makeKeeper(place, names, size, segments, release) {
        const folder = await place.getDirectoryHandle(names.data, { create: true });
        for (const name of await Array.fromAsync(folder.keys())) { // the browser's own, of a tab that was closed
            if (!/^\d+$/.test(name)) await disk.remove(folder, name).catch(() => {});
        }
        const leaving = new AbortController();
        const store = makeStore(segments);
        const writing = new Set(); // promises
        let covered = cover(segments);
        let open = []; // segments that are being written
        let waiting = 0; // bytes
        let draining = null; // a promise, while too many are
        let drained = null; // resolves it
        let problem = null;
        let over = false;

        async function start(segment) {
            segment.handle = await folder.getFileHandle(String(segment.from), { create: true });
            segment.out = await segment.handle.createWritable();
        }

        function wrote(bytes) {
            waiting -= bytes;
            if (waiting > BACKLOG && !problem) return;
            drained?.();
            drained = null;
        }

        function failed(error) {
            problem ??= error;
            wrote(0);
        }

        function append(segment, bytes) {
            segment.to += bytes.byteLength;
            waiting += bytes.byteLength;
            segment.going = segment.going
                .then(() => segment.out.write(bytes))
                .then(() => wrote(bytes.byteLength));
            segment.going.catch(failed);
        }

        function close(segment) {
            open = open.filter((one) => one !== segment);
            const closing = segment.going.then(async () => {
                await segment.out.close();
                const file = await segment.handle.getFile();
                store.add({ from: segment.from, to: segment.from + file.size, file });
            });
            const ended = closing.catch(failed).finally(() => writing.delete(ended));
            writing.add(ended);
        }

        function put(from, bytes) {
            covered = joined(covered, from, from + bytes.byteLength);
            while (bytes.byteLength) {
                let segment = open.find(({ to }) => to === from);
                if (!segment) {
                    segment = { from, to: from, born: performance.now() };
                    segment.going = start(segment);
                    open.push(segment);
                }
                const some = bytes.subarray(0, segment.from + SEGMENT - from);
                append(segment, some);
                from += some.byteLength;
                bytes = bytes.subarray(some.byteLength);
                const length = segment.to - segment.from;
                const isOld = performance.now() - segment.born > OLD && length >= SMALL;
                if (length >= SEGMENT || isOld) close(segment);
            }
            if (open.length > OPEN) close(open[0]);
        }

        // Takes bytes that came from the server. The memory must not change afterwards.
        store.take = (offset, bytes) => {
            if (problem || over) return undefined;
            for (const { from, to } of gaps(covered, offset, offset + bytes.byteLength)) {
                put(from, bytes.subarray(from - offset, to - offset));
            }
            if (waiting <= BACKLOG) return undefined;
            draining = drained ? draining : new Promise((resolve) => { drained = resolve; });
            return draining;
        };

        async function settle() {
            for (const segment of [...open]) close(segment);
            while (writing.size) await Promise.all(writing);
        }

        async function removeAll() {
            await disk.remove(place, names.journal).catch(() => {});
            await disk.remove(place, names.data).catch(() => {});
        }

        // Ends writing; what is there can be continued, unless nothing is.
        async function stop() {
            if (over) return;
            over = true;
            leaving.abort();
            await settle();
            if (!store.all().length) await removeAll();
            release();
        }

        async function leave() {
            if (over) return;
            over = true;
            leaving.abort();
            await Promise.all(open.map((one) => one.going.then(() => one.out.abort()).catch(() => {})));
            await Promise.all(writing);
            await removeAll();
            release();
        }

        async function fill(file, { from, to }) {
            const source = await file.open(from, to - from, leaving.signal);
            for (let at = from; ;) {
                const { value, done } = await source.read(new Uint8Array(BLOCK));
                leaving.signal.throwIfAborted();
                if (value?.byteLength) {
                    await store.take(at, value);
                    at += value.byteLength;
                }
                if (problem) throw problem;
                if (done || at >= to) return;
            }
        }

        return {
            store,
            stop,
            leave,

            // Writes the rest of the file; promises a Blob of all of it. If that fails, it can be continued
            // later, but on a full disk nothing is left.
            finish: plain(async (file, progress) => {
                try {
                    for (let [gap] = gaps(covered, 0, size); gap; [gap] = gaps(covered, 0, size)) {
                        const to = Math.min(gap.to, gap.from + 4 * SEGMENT);
                        await fill(file, { from: gap.from, to });
                        progress?.("keep", to, size);
                    }
                    await settle();
                    if (problem) throw problem;
                    const blob = blobOf(store.all(), size);
                    if (!blob) throw new Error(`only ${count(store.all())} of ${size} bytes were written`);
                    return blob;
                } catch (error) {
                    await (error.name === "QuotaExceededError" ? leave() : stop());
                    throw error;
                }
            }),

            // Ends writing after `finish`: `record` promises to write a record that names the folder.
            async commit(record) {
                try {
                    await record();
                } catch (error) {
                    await leave();
                    throw error;
                }
                over = true;
                await disk.remove(place, names.journal).catch(() => {});
                release();
            },
        };
    }

    return { segmentsOf, blobOf, count, gaps, makeStore, makeKeeper };
})
