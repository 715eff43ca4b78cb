// The model behind the sessions of a LanguageModel: opened by the first, shared by all, closed after the last.

import { openai, sees } from "../index.js";
import { absolute } from "../source.js";

const UNLOAD_MS = 60_000; // after the last session
const PARTS = 0x10000; // of a download, in which its progress is told
const PYTHON = 0.1; // part of the progress until Python has started
const KEPT = "engine/browser/opfs_disk.js"; // the script that knows the library's folder

export class Model {
  #source;
  #loading;
  #opening = null; // {promise, waiting, listeners, controller}
  #sessions = 0;
  #unloading;
  #lost = new FinalizationRegistry(() => this.release());
  #client = null;
  facts = null; // contextWindow, seesImages

  // languages  tags of the languages that the model knows; without them, all that the browser has a name for
  constructor(source, { runtime, languages, keep = true, ...loading } = {}) {
    this.#source = source;
    this.runtime = runtime ?? { openai, sees };
    this.languages = languages && new Set(languages.map((tag) => new Intl.Locale(tag).language));
    this.#loading = { ...loading, keep };
  }

  // What answers, once the model is open and as long as its worker lives; else null.
  get client() {
    return this.#client?.ended ? null : this.#client;
  }

  // Promises one of the standard's words for a session with these options.
  async availability({ expectedInputs, expectedOutputs }) {
    const known = ({ languages = [] }) => languages.every((tag) => this.#knows(tag));
    if (![...expectedInputs, ...expectedOutputs].every(known)) return "unavailable";
    if (!expectedOutputs.every(({ type }) => type === "text" || type === "tool-call")) return "unavailable";
    if (!expectedInputs.every(({ type }) => ["text", "image", "tool-response"].includes(type))) return "unavailable";
    if (!this.client && !(await this.#hasDevice())) return "unavailable";
    if (expectedInputs.some(({ type }) => type === "image") && !(await this.#seesImages())) return "unavailable";
    if (this.client) return "available";
    if (this.#opening) return "downloading";
    return (await this.#isKept()) ? "available" : "downloadable";
  }

  #knows(tag) {
    const { language } = new Intl.Locale(tag);
    if (this.languages) return this.languages.has(language);
    return new Intl.DisplayNames(["en"], { type: "language", fallback: "none" }).of(language) !== undefined;
  }

  async #hasDevice() {
    if (this.#loading.device === "numpy") return true;
    return Boolean(await globalThis.navigator?.gpu?.requestAdapter().catch(() => null));
  }

  async #seesImages() {
    if (!this.facts) this.facts = { seesImages: await this.runtime.sees(this.#source, { keep: this.#loading.keep }) };
    return this.facts.seesImages;
  }

  // Whether the browser's library has a program from this address: a folder, a file or a repository of the Hub.
  async #isKept() {
    try {
      const { find } = await import("../scripts.js");
      const disk = find(KEPT);
      const place = await disk.open();
      const source = String(this.#source);
      const hub = source.match(/^hf:([^@]+)/)?.[1];
      const given = hub ? "" : absolute(source);
      for await (const name of place.keys()) {
        if (!/^[^.]+\.json$/.test(name)) continue; // a journal, of an incomplete file
        const { address = "" } = (await disk.readJson(place, name)) ?? {};
        if (!/\.b?pte$/.test(address.split(/[?#]/)[0])) continue;
        if (hub ? address.includes(`/${hub}/`) : address === given || address.startsWith(`${given.replace(/\/$/, "")}/`)) return true;
      }
    } catch {} // the browser keeps no files, or cannot read them
    return false;
  }

  // Opens the model, or waits for it. `onProgress` gets the part of the download that is done.
  async open({ signal, onProgress = () => {} } = {}) {
    if (this.client) return;
    this.#opening ??= this.#begin();
    const opening = this.#opening;
    opening.waiting += 1;
    opening.listeners.add(onProgress);
    const leave = () => {
      opening.listeners.delete(onProgress);
      opening.waiting -= 1;
      if (!opening.waiting && !this.client) {
        if (this.#opening === opening) this.#opening = null;
        opening.controller.abort();
      }
    };
    try {
      await raced(opening.promise, signal);
    } finally {
      leave();
    }
  }

  #begin() {
    const controller = new AbortController();
    const listeners = new Set();
    const stages = { python: 0, fetch: 0 };
    const onProgress = ({ stage, done, total }) => {
      if (!(stage in stages) || !total) return;
      stages[stage] = done / total;
      const part = stage === "python" ? PYTHON * stages.python : PYTHON + (1 - PYTHON) * stages.fetch;
      for (const listener of listeners) listener(Math.floor(part * PARTS) / PARTS);
    };
    const opening = { controller, listeners, waiting: 0 };
    const open = async () => {
      try {
        const client = await this.runtime.openai(this.#source, { ...this.#loading, signal: controller.signal, onProgress });
        const [{ max_context: most, sees: seesImages }] = client.facts;
        this.facts = { contextWindow: most ?? Infinity, seesImages };
        this.#client = client;
        if (!this.#sessions) this.#unloadLater();
      } finally {
        if (this.#opening === opening) this.#opening = null;
      }
    };
    opening.promise = open();
    opening.promise.catch(() => {}); // those who wait are told
    return opening;
  }

  // Keeps the model open while a session is created.
  async whileHeld(work) {
    this.#sessions += 1;
    clearTimeout(this.#unloading);
    try {
      return await work();
    } finally {
      this.release();
    }
  }

  // Counts a session until it is destroyed, or nothing refers to it any more.
  hold(session, token) {
    this.#sessions += 1;
    clearTimeout(this.#unloading);
    this.#lost.register(session, token, token);
  }

  // Ends the count of a session; with its token, before it is collected.
  release(token) {
    if (token && !this.#lost.unregister(token)) return;
    this.#sessions -= 1;
    if (!this.#sessions) this.#unloadLater();
  }

  #unloadLater() {
    clearTimeout(this.#unloading);
    this.#unloading = setTimeout(() => this.#unload(), UNLOAD_MS);
  }

  #unload() {
    if (this.#sessions || this.#opening) return;
    const { client } = this;
    this.#client = null;
    client?.close().catch(() => {}); // its worker may have ended
  }

  count(body, options) {
    return this.client.tokenize(body, options).then(({ count }) => count);
  }

  see(pixels, options) {
    return this.client.picture(pixels, options);
  }
}

// Promises what a promise does, unless a signal aborts.
export function raced(promise, signal) {
  if (!signal) return promise;
  return new Promise((resolve, reject) => {
    const abort = () => reject(signal.reason);
    if (signal.aborted) abort();
    signal.addEventListener("abort", abort, { once: true });
    promise.then(resolve, reject).finally(() => signal.removeEventListener("abort", abort));
  });
}
