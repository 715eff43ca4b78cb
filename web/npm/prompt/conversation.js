// The messages of a session, and its answers: what the standard calls prefilling and generating.

import { DeviceLostError, RequestError } from "../errors.js";
import { constraintOf, guided } from "./constraint.js";
import { domError, quotaExceeded } from "./errors.js";
import { callOf, executed, tableOf } from "./tools.js";

const ROOM = 4; // where an answer needs room, this part of the context window becomes free
const ROUNDS = 16; // of tools that are called within an answer
const RECOVERIES = 2; // of a lost device within an answer

export class Conversation {
  #model;
  #tools;
  #sampling;
  #toolUsage = 0;
  initial = []; // messages that are never dropped
  groups = []; // messages that were given at once, with the answer to them
  usage = 0; // tokens

  // overflowed  called when messages were dropped
  constructor(model, { tools, sampling, overflowed }) {
    this.#model = model;
    this.#tools = tools;
    this.#sampling = sampling;
    this.overflowed = overflowed;
  }

  get window() {
    return this.#model.facts.contextWindow;
  }

  get hasMessages() {
    return this.initial.length + this.groups.length > 0;
  }

  copyFor(overflowed) {
    const copy = new Conversation(this.#model, { tools: this.#tools, sampling: this.#sampling, overflowed });
    copy.#toolUsage = this.#toolUsage;
    return Object.assign(copy, { initial: this.initial, groups: [...this.groups], usage: this.usage });
  }

  // Reads the messages with which the session begins.
  async begin(messages, signal) {
    if (this.#tools.length) {
      const nothing = [{ role: "user", content: "" }];
      this.#toolUsage = (await this.#count(nothing, false, signal)) - (await this.measure(nothing, signal));
    }
    this.usage = messages.length ? await this.#count(messages, false, signal) : this.#toolUsage;
    if (this.usage > this.window) throw quotaExceeded(this.usage, this.window);
    this.initial = messages;
    if (messages.length) await this.#prefill(messages, signal);
  }

  // Promises the tokens of messages alone.
  async measure(messages, signal) {
    await this.#model.open({ signal }); // its worker may have ended since
    return this.#model.count({ messages, add_generation_prompt: false }, { signal });
  }

  async #count(messages, answers, signal) {
    await this.#model.open({ signal });
    return this.#model.count({ messages, ...this.#toolTables, add_generation_prompt: answers }, { signal });
  }

  get #toolTables() {
    return this.#tools.length ? { tools: this.#tools.map(tableOf) } : {};
  }

  #all(groups, messages) {
    return [...this.initial, ...groups.flat(), ...messages];
  }

  async append(messages, signal) {
    await this.#fit(messages, false, signal);
    await this.#prefill(this.#all(this.groups, messages), signal);
    await this.#commit(messages, signal);
  }

  // Drops the oldest messages where the context window cannot hold all; throws if that does not help, and then drops none.
  async #fit(messages, answers, signal) {
    for (let dropped = 0; dropped <= this.groups.length; dropped++) {
      const needed = await this.#count(this.#all(this.groups.slice(dropped), messages), answers, signal);
      if (needed + Number(answers) <= this.window) return this.#drop(dropped, signal);
    }
    throw quotaExceeded(this.usage + (await this.measure(messages, signal)), this.window);
  }

  async #drop(count, signal) {
    if (!count) return;
    this.groups = this.groups.slice(count);
    this.usage = this.hasMessages ? await this.#count(this.#all(this.groups, []), false, signal) : this.#toolUsage;
    this.overflowed();
  }

  // Makes room for the rest of an answer; resolves to whether there was anything to drop.
  async #makeRoom(messages, signal) {
    if (!this.groups.length) return false;
    const wanted = this.window - Math.floor(this.window / ROOM);
    let dropped = 1;
    while (dropped < this.groups.length && (await this.#count(this.#all(this.groups.slice(dropped), messages), true, signal)) > wanted) dropped++;
    await this.#drop(dropped, signal);
    return true;
  }

  // Computes messages ahead of the prompt that follows. Templates may refuse messages without a question.
  async #prefill(messages, signal) {
    try {
      await this.#model.client.chat.completions.create({ messages, ...this.#toolTables, max_tokens: 1, temperature: 0 }, { signal });
    } catch (error) {
      if (error instanceof DeviceLostError) await this.#model.client.recover({ signal });
      else if (!(error instanceof RequestError)) throw error;
    }
  }

  async #commit(group, signal) {
    const groups = [...this.groups, group];
    const usage = await this.#count(this.#all(groups, []), false, signal);
    signal.throwIfAborted();
    this.groups = groups;
    this.usage = Math.min(usage, this.window);
  }

  // Answers messages. `emit` gets texts and calls of tools as they come.
  // prefix  with which the answer begins
  async answer(given, { prefix, constraint: constrained, omits, emit, signal }) {
    const constraint = constraintOf(constrained);
    const messages = guided(given, omits ? "" : constraint.guidance);
    const begun = prefix ? [{ role: "assistant", content: prefix }] : [];
    await this.#fit([...messages, ...begun], true, signal);
    for (let round = 0; round < ROUNDS; round++) {
      const start = round ? "" : prefix;
      const { text, calls, ended } = await this.#generate(messages, start, constraint, emit, signal);
      if (!calls.length) {
        if (!constraint.check(text)) throw domError("SyntaxError", `the answer does not fit its constraint, since it ended early (${ended}): ${text}`);
        await this.#commit([...messages, { role: "assistant", content: text }], signal);
        return;
      }
      const made = calls.map(callOf);
      const told = { role: "assistant", content: text, tool_calls: calls };
      const results = await executed(made, this.#tools);
      if (!results) {
        for (const value of made) emit({ type: "tool-call", value });
        await this.#commit([...messages, told], signal);
        return;
      }
      signal.throwIfAborted();
      messages.push(told, ...results);
      await this.#fit(messages, true, signal);
    }
    throw domError("OperationError", `the model called tools ${ROUNDS} times in a row`);
  }

  // Generates one answer, over a full context and a lost device.
  async #generate(messages, prefix, constraint, emit, signal) {
    let text = prefix;
    const calls = [];
    for (let recoveries = 0; ;) {
      const begun = text ? [{ role: "assistant", content: text }] : [];
      const body = { messages: this.#all(this.groups, [...messages, ...begun]), ...this.#toolTables, ...constraint.request, ...this.#sampling };
      if (text) body.continue_final_message = true;
      let ended;
      try {
        for await (const { choices: [choice] } of await this.#model.client.chat.completions.create({ ...body, stream: true }, { signal })) {
          const { content, tool_calls: called = [] } = choice.delta;
          calls.push(...called.map(({ index, ...call }) => call));
          ended = choice.finish_reason ?? ended;
          if (content) {
            text += content;
            emit(content);
          }
        }
      } catch (error) {
        if (!(error instanceof DeviceLostError) || recoveries++ >= RECOVERIES) throw error;
        await this.#model.client.recover({ signal });
        continue;
      }
      const isFull = ended === "length" && !calls.length && this.#sampling.max_tokens === undefined;
      if (!isFull || !(await this.#makeRoom([...messages, { role: "assistant", content: text }], signal))) return { text, calls, ended };
    }
  }
}
