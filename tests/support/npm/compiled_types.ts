// Calls of webpte/run and webpte/view, whose types the build of docs/examples/vite checks.

import { open, Tensor, InputError, type Result, type Program } from "webpte/run";
import { PteModel, drawResults } from "webpte/view";

async function work(program: Program): Promise<number> {
  const [scores] = await program.forward(new Float32Array(784));
  if (typeof scores !== "number") console.log(scores.shape, new Tensor(scores.data).dtype);
  const [kept] = await program.run("forward", [new Float32Array(4)], { output: "gpu" });
  if (typeof kept !== "number") kept.destroy();
  for await (const piece of program.write([{ role: "user", content: "Hi" }], { temperature: 0.8 })) console.log(piece.length);
  const results: Result[] = await program.answer(document.createElement("canvas"), { topK: 3 });
  const [first] = results;
  if (first.kind === "boxes") return first.boxes[0].box.xmin;
  document.body.append(drawResults(results));
  return new PteModel().program === null ? 1 : 0;
}

open("/digits/", { onProgress: ({ stage, done }) => console.log(stage, done) }).then(work).catch((error) => {
  if (error instanceof InputError) console.log(error.advice);
});
