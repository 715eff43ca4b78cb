// webpte/prompt: the Prompt API of browsers (LanguageModel) over any chat model that webpte opens.

import { isOurs, languageModel } from "./language_model.js";
import { LanguageModelToolCall, LanguageModelToolError, LanguageModelToolSuccess } from "./tools.js";

export { LanguageModelToolCall, LanguageModelToolError, LanguageModelToolSuccess, languageModel };

const CLASSES = { LanguageModelToolCall, LanguageModelToolError, LanguageModelToolSuccess };

// Sets the global LanguageModel, and resolves to it: the browser's own where it can do what the page needs, else webpte's.
// prefer  "browser", or "webpte", which replaces the browser's own
// needs   options for the browser's availability(): expectedInputs, ...
export async function install(source, { prefer = "browser", needs, ...options } = {}) {
  if (prefer !== "browser" && prefer !== "webpte") throw new TypeError(`prefer: '${prefer}': there are browser and webpte`);
  const own = globalThis.LanguageModel;
  if (prefer === "browser" && own && !isOurs(own) && (await canDo(own, needs))) return own;
  const made = languageModel(source, options);
  for (const [name, value] of Object.entries({ LanguageModel: made, ...CLASSES })) {
    Object.defineProperty(globalThis, name, { value, writable: true, configurable: true });
  }
  return made;
}

async function canDo(own, needs) {
  try {
    return (await own.availability(needs)) !== "unavailable";
  } catch {
    return false; // it does not know what is needed
  }
}
