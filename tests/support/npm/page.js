// What the page of the package for npm does in its tests, by name: `scenarios.twoPrograms(values)`.

import * as webpte from "./package/index.js";

webpte.configure({ indexURL: "pyodide" });

const SIGMOID = "samples/sigmoid.pte";
const SIZE = 37 * 41; // of its input
const ask = (content) => [{ role: "user", content }];
const TEXT = "She said that the fox is quick.";

// Returns an error as something that can be handed to the test; null if there is none.
async function told(promise) {
  try {
    await promise;
    return null;
  } catch (error) {
    const { name, code, message, advice, details } = error;
    return { name, code, message, advice, details, isError: error instanceof webpte.WebpteError };
  }
}

async function twoPrograms(values) {
  const stages = new Set();
  let ticks = 0;
  const clock = setInterval(() => { ticks += 1; }, 20);
  const [sigmoid, add] = await Promise.all([
    webpte.load(SIGMOID, { onProgress: ({ stage }) => stages.add(stage) }),
    webpte.load(await (await fetch("samples/add.pte")).blob()),
  ]);
  clearInterval(clock);
  const x = Float32Array.from(values);
  const [first, second] = [1.5, -4].map((value) => new Float32Array(SIZE).fill(value));
  const [[y], [again], [sum]] = await Promise.all([
    sigmoid.forward(x),
    sigmoid.forward(new webpte.Tensor(x, [37, 41])),
    add.forward(first, second),
  ]);
  await Promise.all([sigmoid.close(), add.close(), add.close()]);
  const same = again.data.every((value, at) => value === y.data[at]);
  return { stages: [...stages], ticks, shape: y.shape, y: [...y.data], same, sums: [...new Set(sum.data)] };
}

async function errors() {
  const program = await webpte.load(SIGMOID);
  const shape = await told(program.forward(new webpte.Tensor(new Float32Array(6), [2, 3])));
  const device = await (await navigator.gpu.requestAdapter()).requestDevice();
  const made = device.createBuffer({ size: 16, usage: GPUBufferUsage.COPY_SRC });
  const buffer = await told(program.forward(made));
  await program.close();
  const closed = await told(program.forward(new Float32Array(SIZE)));
  const missing = await told(webpte.load("none.pte"));
  const foreign = await told(webpte.load(new TextEncoder().encode(`GGUF${" ".repeat(99)}`)));
  const folder = await told(webpte.openai("nowhere/"));
  return { shape, buffer, closed, missing, foreign, folder };
}

async function keptOnTheGpu() {
  const program = await webpte.load(SIGMOID);
  const [kept] = await program.run("forward", [new Float32Array(SIZE).fill(0.5)], { output: "gpu" });
  const [twice] = await program.forward(kept);
  const once = await kept.read();
  await program.recover(); // on the same device: it is there
  const [rebuilt] = await program.forward(new Float32Array(SIZE).fill(0.5));
  await kept.destroy();
  const destroyed = await told(kept.read());
  await program.close();
  const closed = await told(program.stats());
  return { shape: kept.shape, values: [once.data[0], twice.data[0], rebuilt.data[0]], destroyed, closed };
}

async function cancelledLoads() {
  const path = "samples/stories.pte";
  const before = await told(webpte.load(path, { signal: AbortSignal.abort() }));
  const controller = new AbortController();
  const { signal } = controller;
  const onProgress = () => controller.abort(new Error("enough"));
  const during = await told(webpte.load(path, { signal, onProgress }));
  return { before, during, methods: Object.keys(await webpte.inspect(SIGMOID)) };
}

async function chats() {
  const client = await webpte.openai({ teller: "samples/stories.pte" }, { slots: 2 });
  const { completions } = client.chat;
  const messages = ask("What does a cow say?");
  const greedy = { temperature: 0 }; // drawn answers differ now and then
  const whole = await completions.create({ model: "teller", messages, ...greedy });
  const chunks = [];
  for await (const chunk of await completions.create({ messages, stream: true, ...greedy })) chunks.push(chunk);
  const questions = [messages, ask("What is two plus three?")];
  const two = await Promise.all(questions.map((messages) => completions.create({ messages, ...greedy })));
  const story = ask("Tell me a story about a cat.");
  let broken = 0;
  for await (const _ of await completions.create({ messages: story, stream: true })) {
    broken += 1;
    if (broken === 3) break;
  }
  const controller = new AbortController();
  const cut = told(completions.create({ messages: story }, { signal: controller.signal }));
  controller.abort();
  const wrong = await told(completions.create({ messages, temperature: "hot" }));
  const embedding = await told(client.embeddings.create({ input: "x", model: "teller" }));
  await client.close();
  return { whole, chunks, two: two.map(({ choices }) => choices[0].message.content), broken, cut: await cut, wrong, embedding };
}

async function tasks() {
  const task = await webpte.task("text-classification", "tasks/feelings");
  const best = await task(TEXT);
  const several = await task(["ok", "fine"], { top_k: 2 });
  const unknown = await told(task("ok", { topk: 2 }));
  await task.close();
  const pictures = await classified();
  const embed = await webpte.task("feature-extraction", "tasks/vectors/");
  const vector = await embed(TEXT, { pooling: "mean" });
  await embed.close();
  return { names: await webpte.tasks(), best, several, unknown, pictures, shape: vector.shape };
}

// Opens a repository of a Hub at another address, in a runtime of its own.
async function repositories(hubURL) {
  const runtime = new webpte.Runtime({ indexURL: "pyodide", hubURL });
  const [chosen] = await runtime.hubFiles("hf:someone/feelings");
  const task = await runtime.task("hf:someone/feelings");
  const best = await task(TEXT);
  const missing = await told(runtime.load("hf:no/such"));
  runtime.close();
  return { chosen, name: task.task, best, missing };
}

// Calls the methods that tasks have besides.
async function methods() {
  const documents = await webpte.task("retrieval", "tasks/vectors");
  const stages = new Set();
  const added = await documents.add(
    [{ name: "ok.txt", text: "ok" }, new File(["# Foxes\n\nThey are quick."], "foxes.md")],
    { onProgress: ({ stage }) => stages.add(stage) },
  );
  const found = await documents(TEXT);
  const wrong = await told(documents.add({ title: "x" }));
  const signal = AbortSignal.abort();
  const cut = await told(documents.add({ name: "late", text: "late" }, { signal }));
  await documents.close();
  const closed = await told(documents.add({ name: "x", text: "x" }));
  const music = await webpte.task("audio-to-midi", "tasks/music");
  const note = { start: 0, end: 0.5, pitch: 60, name: "C4", amplitude: 0.5, pitch_bends: [0] };
  const file = await music.midi([note], { midi_tempo: 90 });
  await music.close();
  const head = String.fromCharCode(...file.data.slice(0, 4));
  return { added, stages: [...stages], found, wrong, cut, closed, head, none: typeof music.add };
}

// Asks about a picture that was read once, and within a stream.
async function looks() {
  const task = await webpte.task("mask-generation", "tasks/prompts");
  const picture = new ImageData(23, 17);
  picture.data.forEach((_, at) => { picture.data[at] = (at * 37) % 256; });
  const prompts = [{ points: [[3, 4]] }, { box: [1, 2, 9, 8] }];
  const seen = await task.look(picture);
  const asked = await Promise.all(prompts.map((prompt) => task(seen, prompt)));
  const alone = await Promise.all(prompts.map((prompt) => task(picture, prompt)));
  const cut = await told(task.look(picture, { signal: AbortSignal.abort() }));
  await seen.close();
  await seen.close();
  const closed = await told(task(seen, prompts[0]));
  const again = await task.look(picture);
  await task.close();
  const late = await told(task(again, prompts[0]));
  const scores = (found) => found.map((one) => one.scores);
  const { height, width } = seen;
  return { height, width, asked: scores(asked), alone: scores(alone), shape: asked[0].masks[0].shape, cut, closed, late };
}

// Calls a language task while its stream is being read.
async function withinAStream() {
  const task = await webpte.task("text-generation", "tasks/replies");
  const pieces = [], within = [];
  for await (const piece of await task.stream("The fox", { max_new_tokens: 8 })) {
    pieces.push(piece);
    if (pieces.length === 2) within.push(await task("A dog", { max_new_tokens: 3 }));
  }
  const [whole] = await task("The fox", { max_new_tokens: 8, return_full_text: false });
  within.push(await task("A dog", { max_new_tokens: 3 }));
  await task.close();
  return { pieces, whole: whole.generated_text, within: within.map(([one]) => one.generated_text) };
}

// Classifies one picture in all forms that a page may have it in.
async function classified() {
  const pixels = new ImageData(23, 17);
  pixels.data.forEach((_, at) => { pixels.data[at] = at % 4 === 3 ? 255 : (at * 37) % 256; });
  const canvas = document.createElement("canvas");
  [canvas.width, canvas.height] = [23, 17];
  canvas.getContext("2d").putImageData(pixels, 0, 0);
  const blob = await new Promise((resolve) => canvas.toBlob(resolve));
  const task = await webpte.task("image-classification", "tasks/shapes");
  const tensor = new webpte.Tensor(pixels.data, [17, 23, 4]);
  const scores = [];
  for (const picture of [tensor, pixels, canvas, blob, await createImageBitmap(canvas)]) {
    scores.push((await task(picture)).map(({ label, score }) => [label, score]));
  }
  const empty = await told(task(new Image()));
  await task.close();
  return { scores, empty };
}

// The shared worker ends here.
async function ends() {
  const program = await webpte.load(SIGMOID);
  const running = told(program.forward(new Float32Array(SIZE)));
  const configured = await told((async () => webpte.configure({}))());
  webpte.close();
  const late = [await running, await told(program.stats())];
  await program.close(); // it is gone already
  const other = new webpte.Runtime({ indexURL: "nowhere/" });
  const dead = new webpte.Runtime({ worker: new Worker("none.js", { type: "module" }) });
  const failed = [await told(other.load(SIGMOID)), await told(other.tasks()), await told(dead.tasks())];
  const { ended } = other;
  other.close();
  return { configured, late, failed, ended };
}

// webpte in a worker of one's own, which is this file again.
async function here() {
  const worker = new Worker(import.meta.url, { type: "module" });
  const answer = await new Promise((resolve, reject) => {
    worker.onmessage = ({ data }) => resolve(data);
    worker.onerror = (event) => reject(new Error(event.message));
  });
  worker.terminate();
  const { RuntimeHere } = await import("./package/here.js");
  return { ...answer, refused: await told((async () => new RuntimeHere())()) };
}

async function workerSide() {
  const { RuntimeHere } = await import("./package/here.js");
  const runtime = new RuntimeHere({ indexURL: "pyodide/" });
  const program = await runtime.load(SIGMOID);
  const device = await runtime.gpuDevice();
  const buffer = device.createBuffer({ size: SIZE * 4, usage: GPUBufferUsage.COPY_SRC | GPUBufferUsage.COPY_DST });
  device.queue.writeBuffer(buffer, 0, new Float32Array(SIZE).fill(0.5));
  const [y] = await program.forward(buffer);
  const [kept] = await program.run("forward", [buffer], { output: "gpu" });
  postMessage({ value: y.data[7], isBuffer: kept.buffer instanceof GPUBuffer });
}

globalThis.webpte = webpte;
globalThis.scenarios = { twoPrograms, errors, keptOnTheGpu, cancelledLoads, chats, tasks, repositories, methods, looks, withinAStream, ends, here };
if (!globalThis.document) workerSide();
