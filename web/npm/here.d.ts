import { Runtime, RuntimeOptions } from "./index.js";

/** webpte in the thread of a worker of yours, where programs take GPUBuffers of `gpuDevice()` and give them. */
export class RuntimeHere extends Runtime {
  constructor(options?: RuntimeOptions);
  /** The GPUDevice. */
  gpuDevice(): Promise<any>;
}
