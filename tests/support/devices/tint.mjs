// Compiles kernels with Dawn's own compiler, on its device that runs nothing and has every feature: see tint.py.
//
//     node tint.mjs KERNELS.json PACKAGE    a list of {label, code, overrides}; the folder of npm's `webgpu`

import { readFileSync } from "node:fs";
import { pathToFileURL } from "node:url";

const [path, folder] = process.argv.slice(2);
const { create, globals } = await import(pathToFileURL(`${folder}/index.js`));
Object.assign(globalThis, globals);

const FEATURES = ["chromium-experimental-subgroup-matrix", "subgroups", "subgroup-size-control", "shader-f16"];
// That device has WebGPU's default limits, and subgroups of up to 128.
const LIMITS = /exceeds the maximum|larger than the maximum|maxSubgroupSize/;

const gpu = create(["backend=null", "enable-dawn-features=allow_unsafe_apis"]);
const device = await (await gpu.requestAdapter()).requestDevice({ requiredFeatures: FEATURES });
const told = [];
for (const { label, code, overrides } of JSON.parse(readFileSync(path, "utf8"))) {
  device.pushErrorScope("validation");
  const module = device.createShaderModule({ label, code });
  const { messages } = await module.getCompilationInfo();
  const errors = [...messages].filter(({ type }) => type === "error").map(({ message, lineNum }) => `line ${lineNum}: ${message}`);
  if (!errors.length) device.createComputePipeline({ layout: "auto", compute: { module, entryPoint: "main", constants: overrides } });
  const failure = await device.popErrorScope();
  if (!errors.length && failure && !LIMITS.test(failure.message)) errors.push(failure.message);
  told.push(...errors.map((error) => `${label}: ${error}`));
}
console.log(JSON.stringify(told));
process.exit(0);
