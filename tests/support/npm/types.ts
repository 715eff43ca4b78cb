// Uses of the package for npm that `tsc` has to take, and two that it has to refuse. Nothing here is run.

import * as webpte from "webpte";
import { RuntimeHere } from "webpte/here";
import { LanguageModelToolSuccess, install, languageModel } from "webpte/prompt";

export async function programs(buffer: { size: number; usage: number; destroy(): undefined }): Promise<number[]> {
  const signal = AbortSignal.abort();
  const program: webpte.Program = await webpte.load(new Blob([]), { signal, keep: true, kvCache: "int8" });
  const pair = new webpte.Tensor(new BigInt64Array(2), [2]);
  const [y] = await program.forward(new Float32Array(3), pair, buffer, { data: new Int8Array(2), shape: [1, 2] }, 3, 4n);
  const [kept] = await program.run("forward", [y!], { output: "gpu" });
  const read: webpte.Tensor = await kept!.read();
  const sizes = Object.values(program.methods).flatMap(({ inputs }) => inputs.flatMap((one) => (one.kind === "tensor" ? one.shape : [])));
  // @ts-expect-error there is no such option
  await webpte.load("model.pte", { deviec: "numpy" });
  // @ts-expect-error a Date is no input
  await program.forward(new Date());
  return [...read.shape, ...sizes];
}

export async function others(): Promise<string | null> {
  const runtime = new RuntimeHere({ indexURL: "pyodide/" });
  await runtime.gpuDevice();
  const task = await runtime.task("fill-mask", "gaps/");
  await task("A [MASK].", { top_k: 2 });
  const documents = await runtime.task("retrieval", "minilm/");
  const [added] = await documents.add([{ name: "a.txt", text: "a" }, new Blob([]), new URL("https://example.org/b.pdf")]);
  const file = await (await runtime.task("audio-to-midi", "basic-pitch/")).midi([{ pitch: added!.sections.length }]);
  new Blob([file.data.slice()]);
  const masks = await runtime.task("mask-generation", "sam/");
  const seen = await masks.look(new ImageData(2, 2));
  const [best]: webpte.Tensor<Uint8Array>[] = (await masks(seen, { points: [[1, seen.width]], labels: [1] })).masks;
  await masks([seen], { box: [0, 0, best!.data.length, seen.height] });
  await seen.close();
  // @ts-expect-error no picture is given
  await masks.look();
  // @ts-expect-error a name is missing
  await documents.add({ text: "a" });
  try {
    const client = await webpte.openai({ chat: new URL("https://example.org/chat/") });
    const answer = await client.chat.completions.create({ messages: [{ role: "user", content: "Hello" }], seed: 3 });
    return answer.choices[0]!.message.content;
  } catch (error) {
    return error instanceof webpte.UnsupportedOpError ? `${error.code} ${error.advice} ${error.details.ops}` : null;
  }
}

export async function prompts(picture: ImageBitmap): Promise<number> {
  const installed = await install("chat/", { prefer: "webpte", needs: { expectedInputs: [{ type: "image" }] } });
  const session = await installed.create({ monitor: (m) => m.addEventListener("downloadprogress", ({ loaded }) => loaded + 1) });
  const Small = languageModel(new URL("https://example.org/chat/"), { answerTokens: 3, slots: 2, languages: ["en"] });
  const available: "available" | "downloading" | "downloadable" | "unavailable" = await Small.availability();
  const answer = await session.prompt([{ role: "user", content: [{ type: "image", value: picture }] }], { responseConstraint: /a+/ });
  for (const part of typeof answer === "string" ? [] : answer) {
    if (part.type === "tool-call") new LanguageModelToolSuccess({ callID: part.value.callID, name: part.value.name, result: [] });
  }
  // @ts-expect-error there is no such role
  await session.append([{ role: "tool", content: available }]);
  session.oncontextoverflow = null;
  return (await session.clone()).contextUsage;
}
