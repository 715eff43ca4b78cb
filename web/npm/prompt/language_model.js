// LanguageModel, as the Prompt API of browsers has it, over a model of webpte.

import { Conversation } from "./conversation.js";
import { coreOptionsOf, dictionary, messageOf, promptOf, promptOptionsOf, sequence, signalOf } from "./dictionaries.js";
import { domError, translated } from "./errors.js";
import { constraintOf, guided } from "./constraint.js";
import { checked, expectedTypes, startReading, wired } from "./messages.js";
import { Model, raced } from "./model.js";

// temperature and top_k by the standard's words
const MODES = {
  "most-predictable": [0, 1],
  predictable: [0.4, 20],
  balanced: [0.7, 40],
  creative: [1, 64],
  "most-creative": [1.3, 128],
};
const PARAMS = { defaultTopK: 40, maxTopK: 128, defaultTemperature: Math.fround(0.7), maxTemperature: 2 };
const PROGRESS_MS = 50; // between two events
const OURS = Symbol("webpte");
const MADE = Symbol("made");

const task = () => new Promise((resolve) => setTimeout(resolve));

// Adds on... attributes, as Web IDL's event handlers are.
function withHandlers(target, ...types) {
  for (const type of types) {
    let handler = null;
    target.addEventListener(type, (event) => handler?.call(target, event));
    Object.defineProperty(target, `on${type}`, {
      get: () => handler,
      set: (value) => { handler = typeof value === "function" ? value : null; },
      enumerable: true,
      configurable: true,
    });
  }
}

class CreateMonitor extends EventTarget {
  constructor() {
    super();
    withHandlers(this, "downloadprogress");
  }
}

// Tells a monitor of the download: 0 first, 1 last, never less than before.
class Progress {
  #monitor;
  #last = -1;
  #at = 0;
  ended = false;

  constructor(monitor) {
    this.#monitor = monitor;
  }

  tell(loaded) {
    if (this.ended || !this.#monitor || loaded <= this.#last) return;
    this.#last = loaded;
    this.#at = performance.now();
    this.#monitor.dispatchEvent(new ProgressEvent("downloadprogress", { loaded, total: 1, lengthComputable: true }));
  }

  // Later than a while after the last event, and before the end.
  maybe(loaded) {
    if (loaded < 1 && performance.now() - this.#at > PROGRESS_MS) this.tell(loaded);
  }
}

// Returns {temperature, topK, mode} for a session; throws a RangeError.
function samplingOf({ samplingMode, temperature, topK }) {
  const mode = samplingMode === "default" ? "balanced" : samplingMode;
  const [warmth, most] = MODES[mode];
  if (temperature !== undefined && !(temperature >= 0)) throw new RangeError(`temperature is ${temperature}: it is 0 or more`);
  if (topK !== undefined && !(topK >= 1)) throw new RangeError(`topK is ${topK}: it is 1 or more`);
  return {
    mode,
    temperature: Math.fround(Math.min(temperature ?? warmth, PARAMS.maxTemperature)),
    topK: Math.floor(Math.min(topK ?? most, PARAMS.maxTopK)),
  };
}

// Returns the class for a model: an address, or hf:owner/name, as `openai` takes it, with its options.
// answerTokens  the most tokens of an answer; without it, answers end by themselves or with the context window
// activation    whether `create` needs a click or key of the user, as in browsers, where it has to download
export function languageModel(source, { answerTokens, activation = false, ...options } = {}) {
  const model = new Model(source, options);
  let opened; // makes a session

  class LanguageModel extends EventTarget {
    #conversation;
    #options;
    #destroyed = new AbortController();
    #tail = Promise.resolve(); // of the queue of calls
    #token = {};

    static [OURS] = true;

    constructor(made, conversation, created, signal) {
      if (made !== MADE) throw new TypeError("Illegal constructor: call LanguageModel.create()");
      super();
      withHandlers(this, "contextoverflow", "quotaoverflow");
      this.#conversation = conversation;
      this.#options = created;
      model.hold(this, this.#token);
      signal?.addEventListener("abort", () => this.#end(signal.reason), { signal: this.#destroyed.signal });
    }

    static async availability(given) {
      return model.availability(coreOptionsOf(given));
    }

    static async params() {
      return (await model.availability(coreOptionsOf())) === "unavailable" ? null : { ...PARAMS };
    }

    static async create(given) {
      const options = dictionary(given, "the options");
      const core = coreOptionsOf(options);
      const signal = signalOf(options);
      const { monitor } = options;
      if (monitor !== undefined && typeof monitor !== "function") throw new TypeError("monitor is not a function");
      const types = expectedTypes(core.expectedInputs);
      const prompt = options.initialPrompts === undefined ? [] : startReading(sequence(options.initialPrompts, "initialPrompts", messageOf), types);
      const initial = prompt.length ? checked(prompt, types, false) : [];
      const sampling = samplingOf(core);
      signal?.throwIfAborted();
      const made = monitor && new CreateMonitor();
      monitor?.(made);
      return opened({ core, initial, sampling, types }, new Progress(made), signal);
    }

    // Attributes

    get contextUsage() { return this.#conversation.usage; }
    get contextWindow() { return this.#conversation.window; }
    get inputUsage() { return this.contextUsage; }
    get inputQuota() { return this.contextWindow; }
    get topK() { return this.#options.sampling.topK; }
    get temperature() { return this.#options.sampling.temperature; }
    get samplingMode() { return this.#options.sampling.mode; }

    // Methods

    async prompt(input, given) {
      const { read, options, signal } = this.#asked(input, given);
      const parts = [];
      await this.#queued(signal, () => this.#answer(read, options, signal, (part) => parts.push(part)));
      const text = parts.filter((part) => typeof part === "string").join("");
      const calls = parts.filter((part) => typeof part !== "string");
      return calls.length ? [...(text ? [{ type: "text", value: text }] : []), ...calls] : text;
    }

    promptStreaming(input, given) {
      const cancelled = new AbortController();
      const { read, options, signal } = this.#asked(input, given, cancelled.signal);
      signal.throwIfAborted();
      let isCancelled = false;
      return new ReadableStream({
        start: async (controller) => {
          const emit = (part) => { if (!signal.aborted) controller.enqueue(part); };
          this.#queued(signal, () => this.#answer(read, options, signal, emit)).then(
            () => { if (!isCancelled) controller.close(); },
            (error) => { if (!isCancelled) controller.error(error); },
          );
        },
        cancel: () => {
          isCancelled = true;
          cancelled.abort(domError("AbortError", "the stream was cancelled"));
        },
      });
    }

    async append(input, given) {
      const options = dictionary(given, "the options");
      const signal = this.#signal(signalOf(options));
      const read = startReading(promptOf(input), this.#options.types);
      signal.throwIfAborted();
      await this.#queued(signal, async () => {
        const messages = checked(read, this.#options.types, this.#conversation.hasMessages);
        await this.#conversation.append(await this.#wired(messages, signal), signal);
      });
    }

    async measureContextUsage(input, given) {
      const { read, options: { responseConstraint, omits }, signal } = this.#asked(input, given);
      const messages = checked(read, this.#options.types, false);
      const { guidance } = constraintOf(responseConstraint);
      signal.throwIfAborted();
      return this.#told(signal, async () => {
        const told = guided(await this.#wired(messages, signal), omits ? "" : guidance);
        return this.#conversation.measure(told, signal);
      });
    }

    measureInputUsage(input, given) {
      return this.measureContextUsage(input, given);
    }

    async clone(given) {
      const { signal: own } = { signal: signalOf(dictionary(given, "the options")) };
      const signal = this.#signal(own);
      signal.throwIfAborted();
      await raced(task(), signal);
      return LanguageModel.#make(this.#conversation, this.#options);
    }

    destroy() {
      this.#end(domError("AbortError", "the session was destroyed"));
    }

    // How it works

    static #make(conversation, created, signal) {
      const session = new LanguageModel(MADE, conversation, created, signal);
      // A weak reference: the conversation of a prompt under way keeps its session by itself.
      const made = new WeakRef(session);
      session.#conversation = conversation.copyFor(() => {
        for (const type of ["contextoverflow", "quotaoverflow"]) made.deref()?.dispatchEvent(new Event(type));
      });
      return session;
    }

    static {
      opened = async ({ core, initial, sampling, types }, progress, signal) => {
        try {
          const found = await raced(model.availability(core), signal);
          if (found === "unavailable") throw domError("NotSupportedError", "no session with these options is possible here: see availability()");
          if (found === "downloadable" && activation && !globalThis.navigator?.userActivation?.hasBeenActive) {
            throw domError("NotAllowedError", "a download needs a click or key of the user first");
          }
          progress.tell(0);
          await raced(task(), signal);
          return await model.whileHeld(async () => {
            await model.open({ signal, onProgress: (loaded) => progress.maybe(loaded) });
            const decoding = { temperature: sampling.temperature, top_k: sampling.topK, max_tokens: answerTokens };
            const conversation = new Conversation(model, { tools: core.tools, sampling: decoding, overflowed: () => {} });
            const read = await wired(initial, (pixels) => model.see(pixels, { signal }));
            await raced(conversation.begin(read, signal), signal);
            progress.tell(1);
            await raced(task(), signal);
            return LanguageModel.#make(conversation, { sampling, types }, signal);
          });
        } catch (error) {
          throw translated(error, "OperationError");
        } finally {
          progress.ended = true;
        }
      };
    }

    #end(reason) {
      if (this.#destroyed.signal.aborted) return;
      this.#destroyed.abort(reason);
      model.release(this.#token);
    }

    #signal(...others) {
      return AbortSignal.any([this.#destroyed.signal, ...others.filter(Boolean)]);
    }

    // Converts the arguments of a call, when it is made.
    #asked(input, given, ...signals) {
      const options = promptOptionsOf(given);
      const signal = this.#signal(options.signal, ...signals);
      return { read: startReading(promptOf(input), this.#options.types), options, signal };
    }

    async #wired(messages, signal) {
      await model.open({ signal }); // its worker may have ended since
      return wired(messages, (pixels) => model.see(pixels, { signal }));
    }

    async #answer(read, { responseConstraint, omits }, signal, emit) {
      const messages = checked(read, this.#options.types, this.#conversation.hasMessages);
      const last = messages.at(-1);
      const prefix = last.prefix ? last.content.map(({ value }) => value).join("") : "";
      const given = await this.#wired(last.prefix ? messages.slice(0, -1) : messages, signal);
      await this.#conversation.answer(given, { prefix, constraint: responseConstraint, omits, emit, signal });
    }

    // Runs a call after those before it. An abort ends the wait for it at once; what it began has ended before the next.
    async #queued(signal, work) {
      signal.throwIfAborted();
      const before = this.#tail;
      const running = before.then(() => (signal.aborted ? undefined : work()));
      this.#tail = running.catch(() => {});
      return this.#told(signal, () => running);
    }

    async #told(signal, work) {
      try {
        return await raced(work(), signal);
      } catch (error) {
        throw translated(error, "UnknownError");
      }
    }
  }

  Object.defineProperty(LanguageModel.prototype, Symbol.toStringTag, { value: "LanguageModel", configurable: true });
  return LanguageModel;
}

// Whether a class is one of webpte's.
export const isOurs = (found) => Boolean(found?.[OURS]);
