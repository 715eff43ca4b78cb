// OpenAI's API: requests and answers are its JSON objects, as the `openai` package has them.

import { InputError } from "./errors.js";
import { loadingOf, sourceOf } from "./source.js";

export class Client {
  #connection;
  #handle;
  #models;

  constructor(connection, { handle, models, facts }) {
    this.facts = facts; // of each language model: max_context, sees; no part of the API
    this.#connection = connection;
    this.#handle = handle;
    this.#models = models;
    const create = (endpoint) => ({
      create: (body, { signal } = {}) => this.#request(endpoint, body, signal),
    });
    this.chat = { completions: create("chat.completions.create") };
    this.completions = create("completions.create");
    this.embeddings = create("embeddings.create");
    this.models = {
      list: async () => ({ object: "list", data: [...this.#models] }),
      retrieve: async (name) => {
        const found = this.#models.find(({ id }) => id === name);
        if (!found) throw new InputError(`there is no model ${name}`, { code: "model_not_found" });
        return found;
      },
    };
  }

  rerank(body, { signal } = {}) {
    return this.#request("rerank", body, signal);
  }

  // Whether its worker has ended.
  get ended() {
    return this.#connection.failed;
  }

  // Counts the tokens of a request for chat completions, as vLLM's servers do.
  tokenize(body, { signal } = {}) {
    return this.#request("tokenize", body, signal);
  }

  // Reads a picture once, to be the `url` of an `image_url` in any number of requests.
  picture(picture, { model = null, signal } = {}) {
    return this.#connection.call("picture", [this.#handle, model, picture], { signal, discard: (made) => made?.close?.() });
  }

  // Builds the programs anew after a DeviceLostError.
  recover({ signal } = {}) {
    return this.#connection.call("recover", [this.#handle], { signal });
  }

  #request(endpoint, body, signal) {
    return this.#connection.call("request", [this.#handle, endpoint, body], { signal });
  }

  // Frees the memory of its models.
  async close() {
    await this.#connection.release(this.#handle);
  }
}

// models  the address of one model, or an object of addresses by the names that requests use
export async function openClient(connection, models, options) {
  const [loading, call] = loadingOf(options);
  const one = typeof models === "string" || models instanceof URL;
  const sources = Object.entries(one ? { "": models } : models).map(([name, source]) => [name, sourceOf(source)]);
  const discard = ({ handle }) => connection.release(handle);
  const made = await connection.call("openai", [Object.fromEntries(sources), loading], { ...call, discard });
  return new Client(connection, made);
}
