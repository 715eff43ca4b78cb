// Rates of compiled programs, as figures.py has those of the same programs through Python; all are per second.
//
// The page is reloaded before each opening that `first` times: its state is kept in the session.

const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
const post = (path, body) => fetch(path, { method: "POST", body });
const now = () => performance.now() / 1000;

// Numbers that are the same in every run, 0 to 1.
function makeRandom(seed) {
    let state = seed * 2654435761 + 12345;
    return () => {
        state = (Math.imul(state, 1103515245) + 12345) >>> 0;
        return state / 2 ** 32;
    };
}

function median(values) {
    const sorted = values.toSorted((a, b) => a - b);
    const middle = (sorted.length - 1) / 2;
    return (sorted[Math.floor(middle)] + sorted[Math.ceil(middle)]) / 2;
}

async function opened({ folder }, options) {
    const { open } = await import(`/model/${folder}/index.js`);
    return open({ originals: "/model/", ...options });
}

// Returns the median seconds of a call, after some calls and some time that warm up.
async function seconds(run, times, warm) {
    const begun = now();
    for (let i = 0; i < times; i++) await run();
    while (now() - begun < warm) await run();
    const found = [];
    for (let i = 0; i < times; i++) {
        const started = now();
        await run();
        found.push(now() - started);
    }
    return median(found);
}

async function manyAtOnce(call, times) {
    const started = now();
    let left = times;
    const take = async () => { while (left-- > 0) await call(); };
    await Promise.all([take(), take(), take(), take()]);
    return times / (now() - started);
}

// Calls, each awaited before the next; the same with inputs that are on the GPU already; four on their way.
async function lone(job) {
    const program = await opened(job);
    const random = makeRandom(1);
    const given = program.methods.forward.inputs.map(({ shape }) => (
        Float32Array.from({ length: shape.reduce((a, b) => a * b, 1) }, () => 2 * random() - 1)
    ));
    const call = () => program.forward(...given);
    const found = { alone: 1 / await seconds(call, job.times, job.warm) };
    const usage = GPUBufferUsage.COPY_SRC | GPUBufferUsage.COPY_DST;
    const buffers = given.map((data) => {
        const buffer = program.device.createBuffer({ size: data.byteLength, usage });
        program.device.queue.writeBuffer(buffer, 0, data);
        return buffer;
    });
    found["alone, given on the GPU"] = 1 / await seconds(() => program.forward(...buffers), job.times, job.warm);
    const rates = [];
    for (let i = 0; i < job.answers; i++) rates.push(await manyAtOnce(call, job.times));
    found["four at once"] = median(rates);
    program.close();
    return found;
}

// Tokens of prompts, each with another beginning so that nothing of it is cached, and of the second half of answers.
async function decoder(job) {
    const program = await opened(job);
    const { language: { vocabulary } } = await (await fetch(`/model/${job.folder}/program.json`)).json();
    let turn = 0;
    const promptOf = (length) => {
        const random = makeRandom(turn);
        return Array.from({ length }, (_, i) => (i ? Math.floor(random() * vocabulary) : turn++ % vocabulary));
    };
    const found = {};
    for (const length of job.lengths) {
        const fill = async () => {
            for await (const _ of program.generate(promptOf(length), { maxNewTokens: 1, stop: [] }));
        };
        found[`prompt of ${length}`] = length / await seconds(fill, job.times, job.warm);
        const rates = [];
        for (let i = 0; i <= job.answers; i++) {
            const arrivals = [];
            for await (const _ of program.generate(promptOf(length), { maxNewTokens: 2 * job.tokens, stop: [] })) arrivals.push(now());
            const later = arrivals.slice(job.tokens - 1);
            rates.push((later.length - 1) / (later.at(-1) - later[0]));
        }
        found[`decode at ${length}`] = median(rates.slice(1));
    }
    program.close();
    return found;
}

// The first token since the page began to load, and what came before it, in seconds.
async function first(job) {
    const marks = {};
    const onProgress = ({ stage, done, total }) => {
        marks[`${stage} begins`] ??= now();
        if (done === total) marks[`${stage} ends`] = now();
    };
    const program = await opened(job, { onProgress });
    marks.open = now();
    for await (const _ of program.generate(Array.from({ length: 16 }, (_, i) => i + 5), { maxNewTokens: 1, stop: [] }));
    marks["first token"] = now();
    program.close();
    return marks;
}

// Waits until files are kept for the next opening, if they are: they are written while the page works.
async function kept() {
    for (let tries = 0; tries < 200; tries++) {
        const root = await navigator.storage.getDirectory();
        const folder = await root.getDirectoryHandle("webpte-compiled").catch(() => null);
        if (!folder) return;
        for await (const name of folder.keys()) if (name.endsWith(".json")) return;
        await sleep(100);
    }
}

async function measured(job, state) {
    if (job.kind !== "first") return { rates: await { lone, decoder }[job.kind](job) };
    state.marks.push(await first(job));
    await kept();
    if (state.marks.length <= job.times) return null;
    const notes = state.marks.splice(0).slice(1); // the first load of the page warms up
    return { rates: { "first token": 1 / median(notes.map((marks) => marks["first token"])) }, notes };
}

try {
    while (!await navigator.gpu?.requestAdapter()) await sleep(200); // a browser that has just started can answer null
    const jobs = await (await fetch("jobs.json")).json();
    const state = JSON.parse(sessionStorage.getItem("state") ?? '{ "at": 0, "marks": [] }');
    const keep = () => sessionStorage.setItem("state", JSON.stringify(state));
    let again = false;
    while (state.at < jobs.length && !again) {
        const { job } = jobs[state.at];
        let told;
        try {
            told = await measured(job, state);
        } catch (error) {
            told = { error: `${error.name}: ${error.message}` };
        }
        again = told === null;
        if (!again) {
            await post("/result", JSON.stringify({ name: job.name, ...told }));
            state.at++;
        }
        keep();
    }
    if (again) location.reload();
    else await post("/done", "");
} catch (error) {
    await post("/result", JSON.stringify({ name: "page", error: String(error.stack ?? error) }));
    await post("/done", "");
}
