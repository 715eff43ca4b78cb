// The JavaScript half of gpu/browser/opfs_cache.py: files that the browser stores for this site, in its
// origin-private file system.
//
// A stored file is two: its bytes, under a unique name, and a record, KEY.json, which names them. The record
// is written last, in one step, so an incomplete file is never used: it has no record. A lock for each key
// lets one tab write at a time; it ends with its tab.
//
// Evaluates to a function of the values of files.js and plain_errors.js. It returns undefined if the browser
// stores no files.

((files, plain) => {
    const FOLDER = "webpte-library";
    const MB = 1024 * 1024;
    const BACKLOG = 16 * MB; // read by a load and not on disk yet; bytes beyond that are fetched again later
    const BLOCK = 1 * MB; // read in one step of the parts that the load did not read

    const { storage, locks } = globalThis.navigator ?? {};
    if (!storage?.getDirectory || !locks || !globalThis.FileSystemFileHandle?.prototype.createWritable) return undefined;

    const folder = async () => (await storage.getDirectory()).getDirectoryHandle(FOLDER, { create: true });
    const recordName = (key) => `${key}.json`;

    // Promises a function that releases the lock; null if another tab holds it.
    function lock(key) {
        return new Promise((resolve, reject) => {
            const hold = (held) => (held ? new Promise((release) => { resolve(release); }) : resolve(null));
            locks.request(`${FOLDER} ${key}`, { ifAvailable: true }, hold).catch(reject);
        });
    }

    async function whileLocked(key, work) {
        const release = await lock(key);
        if (!release) return false;
        try {
            await work();
        } finally {
            release();
        }
        return true;
    }

    async function orNull(promise) {
        try {
            return await promise;
        } catch (error) {
            if (error.name === "NotFoundError") return null;
            throw error;
        }
    }

    async function fileOf(place, name) {
        const handle = await orNull(place.getFileHandle(name));
        return handle && orNull(handle.getFile());
    }

    async function readRecord(place, key) {
        const file = await fileOf(place, recordName(key));
        try {
            return file && JSON.parse(await file.text());
        } catch {
            return null; // a tab was closed while it wrote the record
        }
    }

    async function writeRecord(place, key, record) {
        const handle = await place.getFileHandle(recordName(key), { create: true });
        const out = await handle.createWritable(); // closing it writes all bytes or none
        await out.write(JSON.stringify(record));
        await out.close();
    }

    const remove = (place, name) => orNull(place.removeEntry(name));

    // The parts of [from, to) that are not in `covered`, which is sorted.
    function gaps(covered, from, to) {
        const found = [];
        for (const [begin, end] of covered) {
            if (begin >= to) break;
            if (begin > from) found.push([from, begin]);
            from = Math.max(from, end);
        }
        if (from < to) found.push([from, to]);
        return found;
    }

    function joined(covered, from, to) {
        const apart = covered.filter(([begin, end]) => end < from || begin > to);
        const touching = covered.filter(([begin, end]) => end >= from && begin <= to).flat();
        return [...apart, [Math.min(from, ...touching), Math.max(to, ...touching)]].sort((a, b) => a[0] - b[0]);
    }

    // Writes the bytes of one file in any order. `hearing.hear` is set to a function that is called with the
    // bytes that a load reads; `release` releases the lock.
    function makeKeeper(place, handle, out, key, size, hearing, release) {
        const leaving = new AbortController();
        let covered = [];
        let waiting = 0; // bytes
        let problem = null;

        function put(offset, bytes) {
            waiting += bytes.byteLength;
            covered = joined(covered, offset, offset + bytes.byteLength);
            return out.write({ type: "write", position: offset, data: bytes }).then(
                () => { waiting -= bytes.byteLength; },
                (error) => { problem ??= error; },
            );
        }

        async function fill(file, [from, to]) {
            const source = await file.open(from, to - from, leaving.signal);
            let position = from;
            for (;;) {
                const { value, done } = await source.read(new Uint8Array(BLOCK));
                leaving.signal.throwIfAborted();
                if (value?.byteLength) {
                    await put(position, value);
                    if (problem) throw problem;
                    position += value.byteLength;
                }
                if (done) break;
            }
            if (position !== to) throw new Error(`received ${position - from} of ${to - from} bytes from byte ${from} on`);
        }

        // Takes bytes that a load has just read. The load does not wait for the disk.
        hearing.hear = (offset, bytes) => {
            if (problem || waiting > BACKLOG) return;
            for (const [from, to] of gaps(covered, offset, offset + bytes.byteLength)) {
                put(from, bytes.slice(from - offset, to - offset));
            }
        };

        async function leave() {
            hearing.hear = null;
            leaving.abort();
            await out.abort().catch(() => {});
            await remove(place, handle.name).catch(() => {});
            release();
        }

        return {
            // Writes the rest of the file, then its record; promises a Blob of the stored file.
            finish: plain(async (file, text, progress) => {
                hearing.hear = null;
                try {
                    for (let [gap] = gaps(covered, 0, size); gap; [gap] = gaps(covered, 0, size)) {
                        const end = Math.min(gap[1], gap[0] + 32 * MB);
                        await fill(file, [gap[0], end]);
                        progress?.("keep", end, size);
                    }
                    await out.close();
                    if (problem) throw problem;
                    const blob = await handle.getFile();
                    if (blob.size !== size) throw new Error(`wrote ${blob.size} bytes instead of ${size}`);
                    const before = await readRecord(place, key);
                    await writeRecord(place, key, { ...JSON.parse(text), size, data: handle.name });
                    if (before) await remove(place, before.data).catch(() => {}); // in use: the next call of `records` removes it
                    release();
                    return blob;
                } catch (error) {
                    await leave();
                    throw error;
                }
            }),

            leave,
        };
    }

    const store = {
        // Promises all records, as JSON. Removes incomplete files that closed tabs left.
        async records() {
            const place = await folder();
            const names = new Set(await Array.fromAsync(place.keys()));
            const keys = [...names].filter((name) => name.endsWith(".json")).map((name) => name.slice(0, -5));
            const found = (await Promise.all(keys.map((key) => readRecord(place, key)))).filter((one) => names.has(one?.data));
            const known = new Set(found.flatMap((record) => [record.data, recordName(record.data.split(".")[0])]));
            for (const name of [...names].filter((one) => !known.has(one))) {
                const key = name.split(".")[0];
                await whileLocked(key, async () => {
                    const record = await readRecord(place, key);
                    const whole = record && await fileOf(place, record.data);
                    if (!whole || ![record.data, recordName(key)].includes(name)) await remove(place, name).catch(() => {});
                });
            }
            return JSON.stringify(found);
        },

        // Promises { record, blob } of a complete file, or undefined (None in Python).
        async find(key) {
            const place = await folder();
            const record = await readRecord(place, key);
            const blob = record && await fileOf(place, record.data);
            return blob?.size === record?.size && blob ? { record: JSON.stringify(record), blob } : undefined;
        },

        // Changes fields of a record, unless another tab is writing it.
        change: (key, text) => whileLocked(key, async () => {
            const place = await folder();
            const record = await readRecord(place, key);
            if (record) await writeRecord(place, key, { ...record, ...JSON.parse(text) });
        }),

        // Deletes a file; promises false if it is being written.
        forget: (key) => whileLocked(key, async () => {
            const place = await folder();
            const record = await readRecord(place, key);
            await remove(place, recordName(key));
            if (record) await remove(place, record.data);
        }),

        // Asks the server for a file: promises `same` if it has the version with these marks, otherwise the
        // `file` and what `begin` needs. A server of another origin gets no "If-None-Match", which it would have
        // to allow first; the marks in its response are compared instead.
        async ask(url, etag, modified, seconds, progress) {
            const headers = { ...files.HEAD };
            const near = new URL(url, location.href).origin === location.origin;
            if (near && etag) headers["If-None-Match"] = etag;
            else if (near && modified) headers["If-Modified-Since"] = modified;
            const waiting = new AbortController();
            const late = seconds && setTimeout(() => waiting.abort(new Error(`no answer in ${seconds} s`)), 1000 * seconds);
            let response;
            try {
                response = await fetch(url, { headers, cache: "no-store", signal: waiting.signal });
            } finally {
                clearTimeout(late);
            }
            const marks = { etag: response.headers.get("ETag") ?? "", modified: response.headers.get("Last-Modified") ?? "" };
            const same = etag ? etag === marks.etag : Boolean(modified) && modified === marks.modified;
            if (response.status === 304 || (response.ok && same)) {
                response.body?.cancel();
                return { same: true };
            }
            const hearing = { hear: null }; // set by `begin`
            const file = await files.openAnswer(url, response, progress, (offset, bytes) => hearing.hear?.(offset, bytes));
            return { same: false, file, hearing, ...marks };
        },

        // Starts to store a file of this size; `hearing` comes from `ask`. Promises undefined if another tab does.
        async begin(key, size, hearing) {
            const release = await lock(key);
            if (!release) return undefined;
            try {
                const place = await folder();
                const handle = await place.getFileHandle(`${key}.${crypto.randomUUID()}`, { create: true });
                return makeKeeper(place, handle, await handle.createWritable(), key, size, hearing ?? {}, release);
            } catch (error) {
                release();
                throw error;
            }
        },

        async usage() {
            const { usage = 0, quota = 0 } = await storage.estimate();
            return JSON.stringify({ usage, quota, persistent: await storage.persisted() });
        },

        persist: () => storage.persist(),
    };
    return Object.fromEntries(Object.entries(store).map(([name, work]) => [name, plain(work)]));
})
