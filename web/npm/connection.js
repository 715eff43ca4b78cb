// Calls of Python, which runs elsewhere: each has a number, and is answered by messages with that number.
//
// A port has `post(message, transfer)`, and calls `onmessage` and `onfailure` of the connection.

import { ClosedError, StartError, WebpteError } from "./errors.js";
import { decode, encode } from "./values.js";

const ENDED = { done: true, value: undefined };

// Items that Python sends, as they come. `return`, which a `break` out of `for await` calls, ends the work.
export class Stream {
  #items = [];
  #waiting = [];
  #error;
  #ended = false;
  #cancel;

  constructor(cancel) {
    this.#cancel = cancel;
  }

  [Symbol.asyncIterator]() {
    return this;
  }

  next() {
    if (this.#items.length) return Promise.resolve({ done: false, value: this.#items.shift() });
    if (this.#error) {
      const error = this.#error;
      this.#error = undefined;
      return Promise.reject(error);
    }
    if (this.#ended) return Promise.resolve(ENDED);
    return new Promise((resolve, reject) => this.#waiting.push({ resolve, reject }));
  }

  return() {
    if (!this.#ended) this.#cancel();
    this.#items = [];
    this.end();
    return Promise.resolve(ENDED);
  }

  put(item) {
    if (this.#ended) return;
    if (this.#waiting.length) this.#waiting.shift().resolve({ done: false, value: item });
    else this.#items.push(item);
  }

  end(error) {
    if (this.#ended) return;
    this.#ended = true;
    const first = this.#waiting.shift();
    if (first && error) first.reject(error);
    else if (first) first.resolve(ENDED);
    else this.#error = error;
    for (const { resolve } of this.#waiting.splice(0)) resolve(ENDED);
  }
}

export class Connection {
  #port;
  #calls = new Map();
  #numbers = 1;
  #failure = null;
  #onEnd;
  #lost = new FinalizationRegistry((handle) => this.release(handle));

  // sharesThread  Python runs in this thread, so that objects of the GPU can be given to it
  // onEnd         called when Python cannot be used any more, for whatever reason
  constructor(port, { sharesThread = false, onEnd = () => {} } = {}) {
    this.#port = port;
    this.sharesThread = sharesThread;
    this.#onEnd = onEnd;
    port.onmessage = (message) => this.#receive(message);
    port.onfailure = (message) => this.#fail(new StartError(message, { code: "start" }));
  }

  get failed() {
    return this.#failure !== null;
  }

  watch(tensor, handle) {
    this.#lost.register(tensor, handle);
  }

  // Calls Python, and returns a promise of its value; of a Stream if there are many.
  // discard  frees a value that came after the call was cancelled
  call(name, given, { signal, onProgress, discard } = {}) {
    return new Promise((resolve, reject) => {
      signal?.throwIfAborted();
      if (this.#failure) throw this.#failure;
      const { text, parts } = encode(given, this);
      const id = this.#numbers++;
      const abort = () => {
        const call = this.#calls.get(id);
        if (!call) return;
        this.#port.post({ id, cancel: true });
        reject(signal.reason);
        call.stream?.end(signal.reason);
        call.aborted = true;
      };
      const settle = () => {
        signal?.removeEventListener("abort", abort);
        this.#calls.delete(id);
      };
      this.#calls.set(id, { resolve, reject, settle, onProgress, discard, aborted: false, stream: null });
      signal?.addEventListener("abort", abort);
      const moved = this.sharesThread ? [] : parts.filter((part) => part instanceof Uint8Array).map((part) => part.buffer);
      this.#port.post({ id, name, text, parts }, moved);
    });
  }

  // Closes an object of Python by its handle. Where Python has ended, it is gone already.
  async release(handle) {
    if (this.failed) return;
    try {
      await this.call("close", [handle]);
    } catch (error) {
      if (!this.failed) throw error;
    }
  }

  // Ends all calls.
  close() {
    this.#fail(new ClosedError("the runtime was closed", { code: "closed" }));
  }

  #fail(error) {
    if (this.#failure) return;
    this.#failure = error;
    for (const call of [...this.#calls.values()]) {
      call.settle();
      call.stream?.end(error);
      call.reject(error);
    }
    this.#onEnd();
  }

  #receive({ id, kind, text, parts, started, failed }) {
    if (failed) this.#fail(new StartError(`Python does not run: ${failed}`, { code: "start" }));
    if (started) for (const call of this.#calls.values()) report(call, started);
    const call = this.#calls.get(id);
    if (!call) return;
    const value = decode(text, parts, this);
    if (kind === "progress") report(call, value);
    else if (kind === "item") call.stream.put(value);
    else if (kind === "stream") {
      call.stream = new Stream(() => this.#port.post({ id, cancel: true }));
      if (call.aborted) call.stream.end();
      call.resolve(call.stream);
    } else {
      call.settle();
      const error = errorOf(kind, value);
      call.stream?.end(error);
      if (error) call.reject(error);
      else if (call.aborted) call.discard?.(value);
      else call.resolve(value);
    }
  }
}

function errorOf(kind, value) {
  if (kind === "error") return WebpteError.from(value);
  if (kind === "cancelled") return new WebpteError("it was cancelled", { code: "cancelled" });
}

function report(call, progress) {
  if (!call.aborted) call.onProgress?.(progress);
}
