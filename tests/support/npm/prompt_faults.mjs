// Faults behind a LanguageModel, in Node: a client that answers by a script, where the real one would lose its device, its
// worker, or the room in its context. Prints what happened, as JSON. Its argument is the address of the package.

const [root] = process.argv.slice(2);
const { DeviceLostError, OutOfMemoryError } = await import(`${root}/errors.js`);
const { languageModel } = await import(`${root}/prompt/index.js`);

globalThis.ProgressEvent ??= class extends Event {
  constructor(type, { loaded, total, lengthComputable }) {
    super(type);
    Object.assign(this, { loaded, total, lengthComputable });
  }
};

const WINDOW = 40; // tokens, which are words
const words = ({ content }) => (typeof content === "string" ? content : content.map(({ text = "a picture" }) => text).join(" ")).split(/\s+/).filter(Boolean).length;

// A runtime whose answers are given: lists of texts, of errors to throw, and at last of why an answer ended.
class Runtime {
  opened = 0;
  recovered = 0;
  requests = [];
  answers = [];
  clients = [];
  closed = 0;

  openai = async (source, { signal, onProgress }) => {
    this.opened += 1;
    onProgress({ stage: "fetch", done: 1, total: 2 });
    await new Promise((resolve, reject) => {
      setTimeout(resolve, 20);
      signal.addEventListener("abort", () => reject(signal.reason));
    });
    const client = {
      ended: false,
      facts: [{ max_context: WINDOW, sees: false }],
      tokenize: async ({ messages, add_generation_prompt: asks }) => ({ count: messages.reduce((sum, one) => sum + words(one) + 1, Number(asks)) }),
      recover: async () => { this.recovered += 1; },
      close: async () => { this.closed += 1; },
      chat: { completions: { create: async (body) => this.#create(body) } },
    };
    this.clients.push(client);
    return client;
  };

  async #create(body) {
    if (body.max_tokens === 1) return {};
    this.requests.push(structuredClone(body));
    return this.#stream(this.answers.shift());
  }

  async *#stream(parts) {
    for (const part of parts) {
      if (part instanceof Error) throw part;
      const ended = ["stop", "length"].includes(part) ? part : null;
      yield { choices: [{ delta: ended ? {} : { content: part }, finish_reason: ended }] };
    }
  }
}

async function made(...answers) {
  const runtime = new Runtime();
  runtime.answers = answers;
  const LanguageModel = languageModel("http://site/chat/", { runtime, device: "numpy" });
  return { runtime, LanguageModel, session: await LanguageModel.create() };
}

const told = (promise) => promise.then(() => null, (error) => ({ name: error.name, cause: error.cause?.name, isDom: error instanceof DOMException }));
const lost = () => new DeviceLostError("gone", { code: "device_lost" });
const last = ({ messages }) => messages.at(-1).content;

async function lostDevice() {
  const { runtime, session } = await made(["A ", "cow ", lost()], ["says moo.", "stop"]);
  const pieces = [];
  for await (const piece of session.promptStreaming("Say it.")) pieces.push(piece);
  const [first, second] = runtime.requests;
  return { pieces, recovered: runtime.recovered, goesOn: [first, second].map((one) => one.continue_final_message ?? false), begun: last(second), usage: session.contextUsage };
}

async function lostAgain() {
  const { session } = await made([lost()], [lost()], [lost()], ["Yes.", "stop"]);
  const error = await told(session.prompt("Say it."));
  return { error, usage: session.contextUsage, answer: await session.prompt("Say it.") };
}

async function fails() {
  const { session } = await made([new OutOfMemoryError("no room", {})]);
  return { error: await told(session.prompt("a")), usage: session.contextUsage };
}

async function fullContext() {
  const { runtime, session } = await made(["one two three", "length"], ["four five ", "length"], ["six", "stop"], ["seven", "length"]);
  const alone = await session.prompt("First question."); // nothing to drop: the answer ends
  let overflows = 0;
  session.oncontextoverflow = () => { overflows += 1; };
  const second = await session.prompt("Second question.");
  const goesOn = runtime.requests[2];
  const usage = session.contextUsage;
  return { alone, second, overflows, begun: last(goesOn), asked: goesOn.messages.map(({ content }) => content), usage };
}

async function dropsTheOldest() {
  const { runtime, session, LanguageModel } = await made(["Yes.", "stop"]);
  const kept = await LanguageModel.create({ initialPrompts: [{ role: "system", content: "Be brief." }] });
  const part = (name) => `${name} `.repeat(9).trim();
  const events = [];
  kept.addEventListener("contextoverflow", () => events.push("new"));
  kept.onquotaoverflow = () => events.push("old");
  for (const name of ["a", "b", "c"]) await kept.append(part(name));
  const before = kept.contextUsage;
  await kept.append(part("d"));
  const clone = await kept.clone();
  const tooLong = await told(kept.append("x ".repeat(WINDOW)));
  await clone.prompt("Well?");
  const asked = runtime.requests[0].messages.map(({ content }) => content[0]);
  return { before, after: kept.contextUsage, events, tooLong, asked, other: session.contextUsage };
}

async function endedWorker() {
  const { runtime, session, LanguageModel } = await made(["One.", "stop"], ["Two.", "stop"]);
  await session.prompt("First.");
  runtime.clients[0].ended = true;
  const availability = await LanguageModel.availability();
  const answer = await session.prompt("Second.");
  return { availability, answer, opened: runtime.opened, asked: runtime.requests[1].messages.length };
}

async function twoAtOnce() {
  const runtime = new Runtime();
  const LanguageModel = languageModel("http://site/chat/", { runtime, device: "numpy" });
  const controller = new AbortController();
  const [first, second] = [told(LanguageModel.create({ signal: controller.signal })), LanguageModel.create()];
  setTimeout(() => controller.abort(), 5);
  const session = await second;
  const one = { first: await first, opened: runtime.opened, usage: session.contextUsage };
  const other = languageModel("http://site/chat/", { runtime, device: "numpy" });
  const both = new AbortController();
  const creating = [told(other.create({ signal: both.signal })), told(other.create({ signal: both.signal }))];
  setTimeout(() => both.abort(), 5);
  const ended = await Promise.all(creating);
  const again = await other.create();
  return { ...one, ended, opened: [one.opened, runtime.opened], again: again.contextWindow };
}

async function unloads() {
  const timers = [];
  const plain = globalThis.setTimeout;
  globalThis.setTimeout = (work, milliseconds, ...more) => {
    if (!(milliseconds >= 10_000)) return plain(work, milliseconds, ...more);
    timers.push(work);
    return timers.length;
  };
  const { runtime, session, LanguageModel } = await made(["One.", "stop"]);
  const other = await session.clone();
  session.destroy();
  session.destroy();
  const early = timers.length;
  other.destroy();
  timers.at(-1)();
  const closed = runtime.closed;
  const again = await LanguageModel.create();
  timers.at(-1)(); // a timer that came too late
  globalThis.setTimeout = plain;
  return { early, closed, opened: runtime.opened, late: runtime.closed, answer: await again.prompt("a") };
}

const scenarios = { lostDevice, lostAgain, fails, fullContext, dropsTheOldest, endedWorker, twoAtOnce, unloads };
const found = {};
for (const [name, run] of Object.entries(scenarios)) found[name] = await run();
console.log(JSON.stringify(found));
process.exit(0);
