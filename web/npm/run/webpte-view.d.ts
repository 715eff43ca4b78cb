// Types of `webpte/view`, which defines the element <pte-model src="./model/">.

import type { AnswerOptions, Program, Result } from "./webpte-run.js";

/** Events: "ready" and "failure" with the program or the error in `detail`, "answer" with the results. */
export class PteModel extends HTMLElement {
  readonly program: Program | null;
  answer(given: unknown, options?: AnswerOptions): Promise<Result[]>;
}

/** Draws results as the element does. `input` makes an element for results that are drawn over it. */
export function drawResults(results: readonly Result[], options?: { input?(): HTMLElement | SVGElement | null }): HTMLElement;
