// Errors as the standard names them: DOMExceptions, and QuotaExceededError with what was asked for.

import { FormatError, InputError, NoWebGPUError, SourceError, StartError, TextError, UnsupportedError, WebpteError } from "../errors.js";

export const domError = (name, message) => new DOMException(message, name);

// For browsers in which QuotaExceededError is no class yet.
class OwnQuotaExceededError extends DOMException {
  constructor(message, { requested, quota }) {
    super(message, "QuotaExceededError");
    Object.assign(this, { requested, quota });
  }
}

export function quotaExceeded(requested, quota) {
  const known = globalThis.QuotaExceededError;
  const Made = typeof known === "function" ? known : OwnQuotaExceededError;
  return new Made(`it needs ${requested} tokens of the context window, which has ${quota}`, { requested, quota });
}

const NAMES = [
  ["NetworkError", [SourceError, StartError]],
  ["NotSupportedError", [NoWebGPUError, UnsupportedError, FormatError, TextError, InputError]],
];

// Returns the exception of the standard for an error of webpte, which is its `cause`; other values as they are.
// otherwise  its name where the standard has none for this error
export function translated(error, otherwise) {
  if (!(error instanceof WebpteError)) return error;
  const [name] = NAMES.find(([, kinds]) => kinds.some((kind) => error instanceof kind)) ?? [otherwise];
  const made = domError(name, [error.message, error.advice].filter(Boolean).join(". "));
  Object.defineProperty(made, "cause", { value: error, configurable: true });
  return made;
}
