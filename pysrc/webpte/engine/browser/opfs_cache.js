// The JavaScript half of engine/browser/opfs_cache.py: files that the browser stores for this site, in its
// origin-private file system.
//
// A stored file is a folder of segments under a unique name (opfs_partial.js), and a record, KEY.json, which names
// the folder. The record is written last, in one step. A file without one is incomplete: it has a journal,
// KEY.part.json, and can be continued. A lock for each key lets one tab write at a time; it ends with its tab.
//
// Evaluates to a function of the values of opfs_disk.js, opfs_partial.js, downloads.js and plain_errors.js.

((disk, partial, downloads, plain) => {
    const FIRST_BYTES = 65536; // of the first request
    const { storage } = navigator;
    const recordName = (key) => `${key}.json`;
    const journalName = (key) => `${key}.part.json`;
    const keyOf = (name) => name.split(".")[0];

    const readRecord = (place, key) => disk.readJson(place, recordName(key));
    const readJournal = (place, key) => disk.readJson(place, journalName(key));

    // The bytes that a record names: a folder of segments, or a file, as older versions wrote.
    async function blobOf(place, { data, size }) {
        try {
            return partial.blobOf(await partial.segmentsOf(place, data), size);
        } catch (error) {
            if (error.name !== "TypeMismatchError") throw error;
        }
        const handle = await disk.orNull(place.getFileHandle(data));
        const file = handle && await disk.orNull(handle.getFile());
        return file?.size === size ? file : undefined;
    }

    // The names in the folder that belong to a key's complete file and to its incomplete one.
    function namesOf(key, names, record, journal) {
        return [
            ...(record && names.has(record.data) ? [record.data, recordName(key)] : []),
            ...(journal && journal.data !== record?.data && names.has(journal.data) ? [journal.data, journalName(key)] : []),
        ];
    }

    // All records of complete files, by key.
    async function allRecords(place) {
        const names = (await Array.fromAsync(place.keys())).filter((name) => name === recordName(keyOf(name)));
        const found = await Promise.all(names.map(async (name) => [keyOf(name), await disk.readJson(place, name)]));
        return found.filter(([, record]) => record);
    }

    // Removes the bytes of a file, unless the record of another key names them, too.
    async function removeData(place, key, data) {
        const others = (await allRecords(place)).filter(([other, record]) => other !== key && record.data === data);
        if (!others.length) await disk.remove(place, data);
    }

    // What there is of an incomplete file.
    async function begun(key) {
        const place = await disk.open();
        const journal = await readJournal(place, key);
        return { journal, segments: journal ? await partial.segmentsOf(place, journal.data) : [] };
    }

    async function tidy(place, key, name) {
        const names = new Set(await Array.fromAsync(place.keys()));
        const owned = namesOf(key, names, await readRecord(place, key), await readJournal(place, key));
        if (!owned.includes(name)) await removeData(place, key, name).catch(() => {});
    }

    const store = {
        // Promises all records, as JSON: `missing` has the number of bytes that an incomplete file lacks.
        // Removes what closed tabs left and nothing names.
        async records() {
            const place = await disk.open();
            const names = new Set(await Array.fromAsync(place.keys()));
            const owned = new Set();
            const found = [];
            for (const key of new Set([...names].map(keyOf))) {
                const journal = await readJournal(place, key); // first: whoever removes it has written the record
                const record = await readRecord(place, key);
                const here = namesOf(key, names, record, journal);
                here.forEach((name) => owned.add(name));
                if (here.includes(recordName(key))) found.push({ ...record, missing: 0 });
                else if (here.includes(journalName(key))) {
                    const missing = journal.size - partial.count(await partial.segmentsOf(place, journal.data));
                    found.push({ ...journal, missing });
                }
            }
            for (const name of [...names].filter((one) => !owned.has(one))) {
                await disk.whileLocked(keyOf(name), () => tidy(place, keyOf(name), name));
            }
            return JSON.stringify(found);
        },

        // Promises { record, blob } of a complete file, or undefined (None in Python).
        async find(key) {
            const place = await disk.open();
            const record = await readRecord(place, key);
            const blob = record && await blobOf(place, record);
            return blob ? { record: JSON.stringify(record), blob } : undefined;
        },

        // Finds a complete file by its hash, whatever its address: promises as `find` does.
        async findContent(sha256) {
            const place = await disk.open();
            for (const [key, record] of await allRecords(place)) {
                const blob = record.sha256 === sha256 && await blobOf(place, record);
                if (blob) return { record: JSON.stringify(record), blob };
            }
            return undefined;
        },

        // Writes a record that names the bytes of another one; its fields are changed as `text` says.
        adopt: (key, other, text) => disk.whileLocked(key, async () => {
            const place = await disk.open();
            const old = await readRecord(place, key);
            const record = { ...JSON.parse(other), ...JSON.parse(text) };
            await disk.writeJson(place, recordName(key), record);
            if (old && old.data !== record.data) await removeData(place, key, old.data).catch(() => {});
        }),

        // Changes fields of a record, unless another tab is writing it.
        change: (key, text) => disk.whileLocked(key, async () => {
            const place = await disk.open();
            const record = await readRecord(place, key);
            if (record) await disk.writeJson(place, recordName(key), { ...record, ...JSON.parse(text) });
        }),

        // Deletes a file; promises false if it is being written.
        forget: (key) => disk.whileLocked(key, async () => {
            const place = await disk.open();
            const [record, journal] = [await readRecord(place, key), await readJournal(place, key)];
            await disk.remove(place, recordName(key));
            await disk.remove(place, journalName(key));
            for (const data of new Set([record?.data, journal?.data])) if (data) await removeData(place, key, data);
        }),

        // Asks the server for a file: promises `same` if it has the version with the marks in `known`, otherwise
        // the `file` and what `begin` needs. What an incomplete file has is not fetched again.
        async ask(key, url, control, known, patience, progress, signal) {
            const { journal, segments } = await begun(key).catch(() => ({ journal: null, segments: [] })); // the disk fails: the server has it all
            const [gap] = journal ? partial.gaps(segments, 0, journal.size) : [];
            const from = segments.length ? gap?.from ?? journal.size - 1 : 0;
            const to = Math.min(from + FIRST_BYTES, gap?.to ?? from + (segments.length ? 1 : FIRST_BYTES));
            const most = segments.length ? { most: control.limits.attempts } : {}; // its address was right before
            const asked = { from, to, known: JSON.parse(known), patience, progress, signal, cache: "no-store", ...most };
            const answer = await downloads.ask(url, control, asked);
            if (answer.same) return { same: true };
            const goesOn = journal && downloads.isSame(journal, answer.marks) && journal.size === answer.size;
            const keeping = { store: goesOn ? partial.makeStore(segments) : null };
            return { same: false, file: downloads.fileOf(url, answer, control, keeping), keeping, answer, ...answer.marks };
        },

        // Starts to store a file of this size; `asked` comes from `ask`. Goes on with an incomplete file of the
        // same version. Promises undefined if another tab is storing it, or somebody has since it was asked for:
        // storing it again would remove the bytes of the first copy, which may be in use.
        async begin(key, size, text, asked) {
            const release = await disk.lock(key);
            if (!release) return undefined;
            try {
                const place = await disk.open();
                const marks = JSON.parse(text);
                const stored = asked && await readRecord(place, key);
                if (stored && downloads.isSame(stored, marks) && stored.size === size && await blobOf(place, stored)) {
                    release();
                    return undefined;
                }
                const before = await readJournal(place, key);
                const goesOn = before && downloads.isSame(before, marks) && before.size === size;
                if (before && !goesOn) await disk.remove(place, before.data);
                const journal = { ...marks, size, data: goesOn ? before.data : `${key}.${crypto.randomUUID()}` };
                await disk.writeJson(place, journalName(key), journal);
                const segments = goesOn ? await partial.segmentsOf(place, journal.data) : [];
                const names = { data: journal.data, journal: journalName(key) };
                const keeper = await partial.makeKeeper(place, names, size, segments, release);
                const first = asked?.answer.first;
                if (asked) asked.keeping.store = keeper.store;
                if (first) keeper.store.take(first.from, first.bytes);
                const write = (record) => async () => {
                    const old = await readRecord(place, key);
                    await disk.writeJson(place, recordName(key), { ...record, size, data: journal.data });
                    if (old && old.data !== journal.data) await removeData(place, key, old.data).catch(() => {}); // in use: `records` removes it
                };
                return { ...keeper, commit: plain((record) => keeper.commit(write(JSON.parse(record)))) };
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
