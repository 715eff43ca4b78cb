// Types of `webpte/run`. docs/use/compiled.md explains them.

import type { OpenOptions, Program } from "./webpte-run.js";

export * from "./webpte-run.js";

/** Opens the compiled program in a folder, by its address. */
export function open(folder: string | URL, options?: OpenOptions): Promise<Program>;
