// What the page of webpte/prompt does in its tests, by name: `scenarios.conversation()`.

import * as webpte from "./package/index.js";
import * as prompts from "./package/prompt/index.js";

webpte.configure({ indexURL: "pyodide" });

const { LanguageModelToolError, LanguageModelToolSuccess } = prompts;
const LanguageModel = prompts.languageModel("models/chat/", { answerTokens: 40 });
const exact = { samplingMode: "most-predictable" };
const ASKED = "What does a cow say?";

// Returns an exception as something that can be handed to the test; null if there is none.
async function told(work) {
  try {
    await (typeof work === "function" ? work() : work);
    return null;
  } catch (error) {
    const { name, message, requested, quota } = error;
    return { name, message, requested, quota, isDom: error instanceof DOMException };
  }
}

// Waits until the library has the model, which is written after it is loaded.
async function keptModel() {
  for (let waits = 0; waits < 600; waits++) {
    const found = await prompts.languageModel("models/chat/").availability();
    if (found === "available") return found;
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
  return "never";
}

async function creation() {
  const before = await LanguageModel.availability();
  const loaded = [];
  let during;
  const monitor = (made) => {
    made.ondownloadprogress = (event) => {
      loaded.push([event.loaded, event.total, event.lengthComputable]);
      if (event.loaded) during ??= LanguageModel.availability();
    };
  };
  const creating = Promise.all([LanguageModel.create({ ...exact, monitor }), LanguageModel.create(exact)]);
  const [one, other] = await creating;
  const again = [];
  await LanguageModel.create({ monitor: (made) => made.addEventListener("downloadprogress", ({ loaded }) => again.push(loaded)) });
  const { contextUsage, contextWindow, topK, temperature, samplingMode, oncontextoverflow } = one;
  return {
    before, during: await during, after: await LanguageModel.availability(), loaded, again,
    kept: await keptModel(),
    other: await prompts.languageModel("models/cha/").availability(),
    facts: { contextUsage, contextWindow, topK, temperature, samplingMode, oncontextoverflow },
    old: [one.inputUsage, one.inputQuota, await one.measureInputUsage("a") === await one.measureContextUsage("a")],
    params: await LanguageModel.params(),
    is: [one instanceof LanguageModel, one instanceof EventTarget, String(one), one !== other],
    illegal: await told(() => new LanguageModel()),
    callback: await told(LanguageModel.create({ monitor: () => { throw new RangeError("mine"); } })),
  };
}

async function conversation() {
  const session = await LanguageModel.create(exact);
  const asked = await session.measureContextUsage(ASKED);
  const whole = await session.prompt(ASKED);
  const usage = session.contextUsage;
  const answered = await session.measureContextUsage(whole);
  const clone = await session.clone();
  const same = [clone.contextUsage === usage, clone.contextWindow === session.contextWindow];
  const pieces = [];
  for await (const piece of clone.promptStreaming("What is two plus three?")) pieces.push(piece);
  const grown = clone.contextUsage > usage && session.contextUsage === usage;
  const second = await session.prompt("What is two plus three?");
  return { asked, whole, usage, answered, same, pieces, grown, second };
}

async function prompts_() {
  const session = await LanguageModel.create({ ...exact, initialPrompts: [
    { role: "system", content: "The word is banana." }, { role: "user", content: "Hi." }, { role: "assistant", content: "Hello." },
  ] });
  const start = session.contextUsage;
  await session.append("A cow is an animal.");
  const appended = session.contextUsage;
  const prefixed = await session.prompt([{ role: "user", content: ASKED }, { role: "assistant", content: "A cow", prefix: true }]);
  const twice = await session.prompt([{ role: "user", content: [{ type: "text", value: "a" }, { type: "text", value: "b" }] }, { role: "assistant", content: "Well." }]);
  const coerced = [];
  for (const input of [null, undefined, {}, "", [], [{ role: "user", content: [] }]]) coerced.push(typeof (await session.append(input)));
  return { start, appended, prefixed, twice: typeof twice, coerced };
}

async function refusals() {
  const session = await LanguageModel.create(exact);
  const used = await LanguageModel.create({ ...exact, initialPrompts: [{ role: "user", content: "Hi." }] });
  const pictures = LanguageModel.create({ expectedInputs: [{ type: "image" }] });
  const tool = { name: "add", description: "Adds.", inputSchema: { type: "object" } };
  const circular = {};
  circular.self = circular;
  const canvas = new OffscreenCanvas(2, 2);
  const cases = {
    language: () => LanguageModel.create({ expectedInputs: [{ type: "text", languages: ["en-abc-invalid"] }] }),
    unknown: () => LanguageModel.create({ expectedOutputs: [{ type: "text", languages: ["unk"] }] }),
    soup: () => LanguageModel.availability({ expectedInputs: [{ type: "soup" }] }),
    output: () => LanguageModel.create({ expectedOutputs: [{ type: "image" }] }),
    pictures: () => pictures,
    mode: () => LanguageModel.create({ samplingMode: "wild" }),
    both: () => LanguageModel.create({ samplingMode: "creative", topK: 3 }),
    topK: () => LanguageModel.create({ topK: 0 }),
    temperature: () => LanguageModel.create({ temperature: -1 }),
    late: () => LanguageModel.create({ initialPrompts: [{ role: "user", content: "a" }, { role: "system", content: "b" }] }),
    options: () => LanguageModel.create(3),
    signal: () => session.prompt("a", { signal: {} }),
    role: () => session.prompt([{ role: "tool", content: "a" }]),
    content: () => session.prompt([{ role: "user" }]),
    system: () => used.prompt([{ role: "system", content: "b" }]),
    systemAppended: () => used.append([{ role: "system", content: "b" }]),
    prefixUser: () => session.prompt([{ role: "user", content: "a", prefix: true }]),
    prefixEarly: () => session.prompt([{ role: "assistant", content: "a", prefix: true }, { role: "user", content: "a" }]),
    image: () => session.prompt([{ role: "user", content: [{ type: "image", value: canvas }] }]),
    audio: () => session.prompt([{ role: "user", content: [{ type: "audio", value: new ArrayBuffer(2) }] }]),
    assistant: () => session.prompt([{ role: "assistant", content: [{ type: "image", value: canvas }] }]),
    textValue: () => session.prompt([{ role: "user", content: [{ type: "text", value: canvas }] }]),
    omits: () => session.prompt("a", { omitResponseConstraintInput: true }),
    constraint: () => session.prompt("a", { responseConstraint: 3 }),
    schema: () => session.prompt("a", { responseConstraint: { type: "soup" } }),
    circular: () => session.prompt("a", { responseConstraint: circular }),
    regex: () => session.prompt("a", { responseConstraint: /(a)\1/ }),
    badPrefix: () => session.prompt([{ role: "assistant", content: "no", prefix: true }], { responseConstraint: /yes/ }),
    toolOutput: () => LanguageModel.create({ tools: [tool] }),
    toolTwice: () => LanguageModel.create({ tools: [tool, tool], expectedOutputs: [{ type: "tool-call" }] }),
    toolSchema: () => LanguageModel.create({ tools: [{ ...tool, inputSchema: { type: "string" } }], expectedOutputs: [{ type: "tool-call" }] }),
    toolResponse: () => session.prompt([{ role: "user", content: [{ type: "tool-response", value: new LanguageModelToolError({ callID: "1", name: "add", errorMessage: "no" }) }] }]),
  };
  const found = {};
  for (const [name, work] of Object.entries(cases)) found[name] = await told(work);
  return { found, usage: session.contextUsage, answer: typeof (await session.prompt("a")) };
}

async function limits() {
  const session = await LanguageModel.create(exact);
  const { contextWindow } = session;
  const long = "A cow says moo! ".repeat(contextWindow);
  const usage = await session.measureContextUsage(long);
  const created = await told(LanguageModel.create({ initialPrompts: [{ role: "system", content: long }] }));
  const appended = await told(session.append(long));
  const prompted = await told(session.prompt(long));
  const nothing = session.contextUsage;
  const kept = await LanguageModel.create({ ...exact, initialPrompts: [{ role: "user", content: "My name is Tim." }] });
  const base = kept.contextUsage;
  let overflows = 0;
  kept.oncontextoverflow = () => { overflows += 1; };
  const part = "A cow says moo! ".repeat(Math.floor(contextWindow / 12));
  const usages = [];
  for (let count = 0; count < 6 && !overflows; count++) {
    await kept.append(part);
    usages.push(kept.contextUsage);
  }
  const answer = await kept.prompt(ASKED);
  return { contextWindow, usage, created, appended, prompted, nothing, base, overflows, usages, end: kept.contextUsage, answer };
}

async function constraints() {
  const session = await LanguageModel.create(exact);
  const ask = (input, responseConstraint, more) => session.prompt(input, { responseConstraint, ...more });
  const schema = { type: "object", properties: { rating: { type: "number", minimum: 0, maximum: 5 } }, required: ["rating"], additionalProperties: false };
  const plain = await session.measureContextUsage("Rate it.");
  const guided = await session.measureContextUsage("Rate it.", { responseConstraint: schema });
  const omitted = await session.measureContextUsage("Rate it.", { responseConstraint: schema, omitResponseConstraintInput: true });
  return {
    usages: [plain, guided, omitted],
    rating: await ask("Rate it.", schema, { omitResponseConstraintInput: true }),
    choice: await ask("Say it.", /^(?<word>yes|no)$/),
    cased: await ask("Say it.", /YES/i),
    digits: await ask("A date.", /\d{4}-\d{2}/),
    whole: await ask([{ role: "user", content: "Hello." }, { role: "assistant", content: "Greet", prefix: true }], /^Greetings and \w{3}$/),
    integer: await ask("How many?", { type: "integer", minimum: -3, maximum: 12 }),
    cut: await told(ask("Say it.", /^[a-z ]{300}$/)),
  };
}

async function aborts() {
  const session = await LanguageModel.create(exact);
  const mine = new TypeError("mine");
  const before = await told(session.prompt(ASKED, { signal: AbortSignal.abort(mine) }));
  const controller = new AbortController();
  const running = told(session.prompt("Tell me a story about a cat.", { signal: controller.signal }));
  const waiting = new AbortController();
  const queued = told(session.prompt("Another one.", { signal: waiting.signal }));
  waiting.abort();
  const first = await queued;
  controller.abort();
  const second = await running;
  const usage = session.contextUsage;
  const streamed = new AbortController();
  const stream = session.promptStreaming("Tell me a story about a cat.", { signal: streamed.signal });
  const reader = stream.getReader();
  const piece = await reader.read();
  streamed.abort();
  const ended = await told(reader.read());
  const thrown = await told(() => session.promptStreaming("a", { signal: streamed.signal }));
  const other = session.promptStreaming("Tell me a story about a dog.").getReader();
  await other.read();
  await other.cancel();
  const answer = await session.prompt(ASKED);
  const measured = await told(session.measureContextUsage("a", { signal: AbortSignal.abort() }));
  const cloned = await told(session.clone({ signal: AbortSignal.abort() }));
  const created = await told(LanguageModel.create({ signal: AbortSignal.abort() }));
  const late = new AbortController();
  const bound = await LanguageModel.create({ signal: late.signal });
  late.abort(mine);
  const after = await told(bound.prompt("a"));
  return { before, first, second, usage, piece: typeof piece.value, ended, thrown, answer, measured, cloned, created, after };
}

async function destroyed() {
  const session = await LanguageModel.create(exact);
  const story = "Tell me a story about a cat.";
  const clone = await session.clone();
  const running = [session.prompt(story), session.append("a"), session.measureContextUsage("a"), session.clone(), session.promptStreaming("a").getReader().read()].map(told);
  session.destroy();
  session.destroy();
  const during = await Promise.all(running);
  const after = await Promise.all([() => session.prompt("a"), () => session.append("a"), () => session.measureContextUsage("a"), () => session.clone(), () => session.promptStreaming("a")].map(told));
  return { during, after, attributes: [session.contextUsage, session.contextWindow], clone: await clone.prompt(ASKED) };
}

// The small model calls no tool by itself: a constraint leaves it nothing else to say.
async function tools() {
  const asked = [];
  const tool = {
    name: "add", description: "Adds two numbers.", inputSchema: { type: "object", properties: { a: { type: "integer" } }, required: ["a"] },
    execute: async (given) => {
      asked.push(given);
      if (asked.length > 1) throw new RangeError("mine");
      return "12";
    },
  };
  const options = { ...exact, expectedInputs: [{ type: "tool-response" }], expectedOutputs: [{ type: "tool-call" }] };
  const call = /```tool_call\n\{"name": "add", "arguments": \{"a": 7\}\}\n```/;
  const forced = (session) => session.prompt("Add.", { responseConstraint: call, omitResponseConstraintInput: true });
  const Patient = prompts.languageModel("models/chat/");
  const open = await Patient.create({ ...options, tools: [{ ...tool, execute: undefined }] });
  const usage = open.contextUsage;
  const parts = await forced(open);
  const callID = Array.isArray(parts) ? parts.at(-1).value.callID : "";
  const result = (value) => new LanguageModelToolSuccess({ callID, name: "add", result: [value] });
  const respond = (value) => open.prompt([{ role: "user", content: [{ type: "tool-response", value }] }]);
  const refused = {};
  for (const [name, value] of Object.entries({ circular: (() => { const one = {}; one.one = one; return one; })(), function: () => 1, bigint: 1n })) {
    refused[name] = await told(() => respond(result({ type: "object", value })));
  }
  refused.image = await told(() => respond(result({ type: "image", value: new OffscreenCanvas(2, 2) })));
  const answer = await respond(result({ type: "object", value: { sum: 12 } }));
  const closed = await Patient.create({ ...options, tools: [tool] });
  const final = await told(forced(closed)); // called again, since the constraint still holds
  return { usage, parts: JSON.parse(JSON.stringify(parts)), refused, answer, asked, final };
}

async function installed() {
  const made = await prompts.install("models/chat/");
  const same = (await prompts.install("models/chat/")) !== made && globalThis.LanguageModel !== undefined;
  const fake = class { static async availability() { return "available"; } };
  globalThis.LanguageModel = fake;
  const stepsAside = (await prompts.install("models/chat/")) === fake;
  fake.availability = async () => "unavailable";
  const takesOver = (await prompts.install("models/chat/")) === globalThis.LanguageModel && globalThis.LanguageModel !== fake;
  globalThis.LanguageModel = fake;
  fake.availability = async () => "available";
  const prefers = (await prompts.install("models/chat/", { prefer: "webpte" })) !== fake;
  delete globalThis.LanguageModel;
  const missing = prompts.languageModel("models/none/", { keep: false });
  const failed = await told(missing.create());
  const wrong = await told(prompts.install("models/chat/", { prefer: "both" }));
  return { same, stepsAside, takesOver, prefers, failed, wrong };
}

// A model that sees: small and random, so that what it says means nothing.
async function pictures(folder) {
  const Seeing = prompts.languageModel(folder, { answerTokens: 4, keep: false });
  const options = { ...exact, expectedInputs: [{ type: "image" }] };
  const available = await Seeing.availability(options);
  const session = await Seeing.create(options);
  const canvas = new OffscreenCanvas(20, 10);
  canvas.getContext("2d").fillRect(2, 2, 5, 5);
  const blob = await canvas.convertToBlob();
  const ask = (value) => [{ role: "user", content: [{ type: "text", value: "Look:" }, { type: "image", value }] }];
  const sources = {
    canvas, blob, bitmap: await createImageBitmap(canvas), bytes: await blob.arrayBuffer(), view: new DataView(await blob.arrayBuffer()),
    pixels: canvas.getContext("2d").getImageData(0, 0, 20, 10), frame: new VideoFrame(canvas, { timestamp: 0 }),
    element: await new Promise((resolve) => { const image = new Image(); image.onload = () => resolve(image); image.src = URL.createObjectURL(blob); }),
  };
  const usages = {};
  for (const [name, source] of Object.entries(sources)) usages[name] = await session.measureContextUsage(ask(source));
  sources.frame.close();
  const alone = await session.measureContextUsage("Look:");
  const answers = [await session.prompt(ask(canvas)), await session.prompt("Again?")];
  const broken = await told(session.prompt(ask(new Uint8Array(9))));
  const clone = await session.clone();
  answers.push(await clone.prompt("Once more?"));
  return { available, usages, alone, answers: answers.map((one) => typeof one), broken };
}

globalThis.prompts = prompts;
globalThis.scenarios = { creation, conversation, prompts: prompts_, refusals, limits, constraints, aborts, destroyed, tools, installed, pictures };
