// Files on servers, read in ranges. A range whose request fails or stalls is asked for again, from the byte
// where it stopped.
//
// Evaluates to a function of the values of files.js and retry.js. It returns { makeControl, ask, fileOf,
// openUrl, collectFile, isSame }.
//
// A file may have a store, in which its bytes are kept:
//     pieceAt(offset)        a kept piece { from, to, file } with this byte, or undefined
//     nextAfter(offset)      the first kept byte after this one; Infinity if there is none
//     lose(piece)            called if a kept piece cannot be read (any more)
//     take(offset, bytes)    called with all bytes from the server; may return a promise, to be waited for

((files, { makeControl, makeAttempts, failure }) => {
    const BLOCK = 1 << 20;
    const HEAD_BYTES = 65536; // of the first request: more than the tables of most programs
    const RANGE = /^bytes (?:(\d+)-\d+|\*)\/(\d+)$/; // the first byte of a response, and the file's size
    const BUSY = [408, 425, 429, 500, 502, 503, 504];
    const NEW_ATTEMPTS = 3; // at a server that has not answered yet: its address may be wrong
    const STRONG = /^"/; // an ETag that stands for the same bytes

    const changed = () => failure(
        "the file changed on its server while it was being read; open it again",
        { name: "FileChangedError", final: true },
    );

    const isNear = (url) => {
        const here = globalThis.location?.href;
        return Boolean(here) && new URL(url, here).origin === globalThis.location.origin;
    };

    const marksOf = ({ headers }) => ({ etag: headers.get("ETag") ?? "", modified: headers.get("Last-Modified") ?? "" });

    const isSame = (marks, others) => (
        (marks.etag || marks.modified) && marks.etag === others.etag && marks.modified === others.modified
    );

    // The seconds of a Retry-After header, which has a number or a date.
    function secondsToWait({ headers }) {
        const text = headers.get("Retry-After") ?? "";
        const seconds = /^\d+$/.test(text) ? Number(text) : (Date.parse(text) - Date.now()) / 1000;
        return seconds > 0 ? Math.ceil(seconds) : 0;
    }

    function refusal(response, range) {
        const { status, statusText } = response;
        const told = `the server answered ${status}${statusText ? ` ${statusText}` : ""}${range ? ` to ${range}` : ""}`;
        return failure(told, { final: !BUSY.includes(status), wait: secondsToWait(response) });
    }

    // Makes attempts until one succeeds; `work` gets a request, see retry.js.
    async function persist(attempts, work) {
        for (;;) {
            const request = await attempts.begin();
            try {
                return await work(request);
            } catch (error) {
                await attempts.failedWith(error);
            } finally {
                request.end();
            }
        }
    }

    async function* chunksOf(body, request) {
        const reader = files.hold(body.getReader());
        try {
            for (;;) {
                const { value, done } = await request.step(reader.read());
                if (done) return;
                if (value.byteLength) yield value;
            }
        } finally {
            files.release(reader);
        }
    }

    async function collect(response, request, attempts, progress) {
        const total = Number(response.headers.get("Content-Length") ?? 0);
        const chunks = [];
        let done = 0;
        for await (const chunk of chunksOf(response.body, request)) {
            attempts.advance();
            chunks.push(chunk);
            done += chunk.byteLength;
            progress?.("fetch", done, Math.max(total, done));
        }
        if (done < total && !response.headers.get("Content-Encoding")) throw failure(`received ${done} of ${total} bytes`);
        return new Blob(chunks); // outside of the JavaScript heap
    }

    // Asks for some bytes from `from` to `to`, which a server that answers ranges sends with the file's size.
    // `known` has marks that the file may still have: then its answer is only { same: true }. A server of
    // another origin gets no "If-None-Match", which it would have to allow first.
    // Promises { marks, size, first } of such a server, and { marks, blob } of others.
    async function ask(url, control, { from = 0, to = from + HEAD_BYTES, known = {}, patience = 0, progress, signal, cache, most = NEW_ATTEMPTS } = {}) {
        const begun = from > 0;
        const attempts = makeAttempts(control, signal, patience ? { most: 1, stall: patience, begun: false } : { most, begun });
        const headers = { Range: `bytes=${from}-${to - 1}` };
        if (isNear(url) && known.etag) headers["If-None-Match"] = known.etag;
        else if (isNear(url) && known.modified) headers["If-Modified-Since"] = known.modified;
        const answer = await persist(attempts, async (request) => {
            const response = await request.step(fetch(url, { headers, signal: request.signal, ...(cache ? { cache } : {}) }));
            const marks = marksOf(response);
            const same = known.etag ? known.etag === marks.etag : Boolean(known.modified) && known.modified === marks.modified;
            if (response.status === 304 || (response.ok && same)) return { same: true };
            if (response.status === 416) return from ? {} : { marks, blob: new Blob([]) }; // the range of an empty file
            if (!response.ok) throw refusal(response);
            if (response.status !== 206) return { marks, blob: await collect(response, request, attempts, progress) };
            const size = Number(RANGE.exec(response.headers.get("Content-Range") ?? "")?.[2] ?? NaN);
            if (!Number.isSafeInteger(size)) return { marks };
            const bytes = new Uint8Array(await request.step(response.arrayBuffer()));
            if (bytes.byteLength !== Math.min(to, size) - from) throw failure(`received ${bytes.byteLength} bytes`);
            return { marks, size, first: { from, to: from + bytes.byteLength, bytes } };
        });
        if (answer.same || answer.blob || answer.first) return answer;
        if (from) return ask(url, control, { known, patience, progress, signal, cache, most }); // it became shorter
        return persist(attempts, async (request) => { // a server of ranges whose size this page may not see
            const response = await request.step(fetch(url, { signal: request.signal }));
            if (!response.ok) throw refusal(response);
            return { marks: marksOf(response), blob: await collect(response, request, attempts, progress) };
        });
    }

    // The file of an answer of `ask`. `keeping.store`, which may be set later, is its store.
    function fileOf(url, { marks, size, first, blob }, control, keeping = {}) {
        if (blob) return files.blobFile(blob);

        async function request(from, to, { step, signal }) {
            const range = `bytes=${from}-${to - 1}`;
            const headers = { Range: range };
            if (isNear(url) && STRONG.test(marks.etag)) headers["If-Range"] = marks.etag;
            const cache = keeping.store ? "no-store" : "default"; // the store has them already
            const response = await step(fetch(url, { headers, signal, cache }));
            const { etag, modified } = marksOf(response);
            const differs = (etag && marks.etag && etag !== marks.etag) || (!etag && modified && marks.modified && modified !== marks.modified);
            if (response.status === 416 || (response.ok && differs)) throw changed();
            if (response.status !== 206) throw refusal(response, range);
            const [, begin = from, total = size] = RANGE.exec(response.headers.get("Content-Range") ?? "") ?? [];
            if (Number(total) !== size) throw changed();
            if (Number(begin) !== from) {
                throw failure(`the server answered ${range} with bytes from ${begin} on`, { final: true });
            }
            return response.body;
        }

        // Yields bytes of the server; where they break off, the next request begins.
        async function* fetched(from, to, signal) {
            const attempts = makeAttempts(control, signal);
            while (from < to) {
                const going = await attempts.begin();
                try {
                    for await (const chunk of chunksOf(await request(from, to, going), going)) {
                        attempts.advance();
                        const bytes = chunk.subarray(0, to - from);
                        await keeping.store?.take(from, bytes);
                        from += bytes.byteLength;
                        yield bytes;
                        if (from === to) return;
                    }
                    throw failure(`the server sent ${to - from} bytes too few`);
                } catch (error) {
                    await attempts.failedWith(error);
                } finally {
                    going.end();
                }
            }
        }

        // Yields bytes of a kept piece; those that cannot be read are left to the server.
        async function* kept(piece, from, to) {
            const reader = files.hold(piece.file.slice(from - piece.from, to - piece.from).stream().getReader());
            try {
                for (let step = await reader.read(); !step.done; step = await reader.read()) yield step.value;
            } catch {
                keeping.store?.lose(piece);
            } finally {
                reader.cancel().catch(() => {});
                files.release(reader);
            }
        }

        function bytesAt(from, to, signal) {
            if (first.from <= from && from < first.to) {
                return [first.bytes.subarray(from - first.from, Math.min(to, first.to) - first.from)];
            }
            const piece = keeping.store?.pieceAt(from);
            if (piece) return kept(piece, from, Math.min(to, piece.to));
            const next = keeping.store?.nextAfter(from) ?? Infinity;
            return fetched(from, Math.min(to, next, first.from > from ? first.from : Infinity), signal);
        }

        async function* bytesOf(from, to, signal) {
            while (from < to) {
                for await (const bytes of bytesAt(from, to, signal)) {
                    signal?.throwIfAborted();
                    from += bytes.byteLength;
                    yield bytes;
                }
            }
        }

        async function open(offset, length, signal) {
            const coming = bytesOf(offset, offset + length, signal);
            let rest = new Uint8Array(0);
            return {
                async read(view) {
                    if (!rest.byteLength) {
                        const { value, done } = await coming.next();
                        if (done) return { done: true };
                        rest = value;
                    }
                    const value = rest.subarray(0, view.byteLength);
                    view.set(value);
                    rest = rest.subarray(value.byteLength);
                    return { value: view.subarray(0, value.byteLength), done: false };
                },
            };
        }

        async function read(offset, length, signal) {
            const bytes = new Uint8Array(length);
            let at = 0;
            for await (const some of bytesOf(offset, offset + length, signal)) {
                bytes.set(some, at);
                at += some.byteLength;
            }
            return bytes.buffer;
        }

        return { size, open, read };
    }

    // Reads a whole file into a Blob.
    async function collectFile(file, progress, signal) {
        const source = await file.open(0, file.size, signal ?? new AbortController().signal);
        const chunks = [];
        for (let done = 0; done < file.size;) {
            const step = await source.read(new Uint8Array(BLOCK));
            if (step.done) throw failure(`received ${done} of ${file.size} bytes`);
            chunks.push(new Blob([step.value]));
            done += step.value.byteLength;
            progress?.("fetch", done, file.size);
        }
        return new Blob(chunks);
    }

    return {
        makeControl,
        collectFile,
        isSame,
        ask,
        fileOf,

        // Opens a URL. If the server answers ranges, only the parts that are read are fetched.
        async openUrl(url, control, progress, signal) {
            return fileOf(url, await ask(url, control, { progress, signal }), control);
        },
    };
})
