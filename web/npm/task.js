// Tasks: models by what they do. A task is a function with `close`, and with the task's further methods.

import { loadingOf, sourceOf } from "./source.js";

const isOptions = (value) => value !== null && typeof value === "object" && Object.getPrototypeOf(value) === Object.prototype
  && !ArrayBuffer.isView(value.data);

// Splits arguments: an object after the first one is options, among which two are not Python's.
function split(given) {
  const last = given.at(-1);
  const { signal, onProgress, ...options } = given.length > 1 && isOptions(last) ? last : {};
  return [given.length > 1 && isOptions(last) ? given.slice(0, -1) : given, options, { signal, onProgress }];
}

// Without a name, as openTask(connection, source, options), the model's files say what it does.
export async function openTask(connection, ...given) {
  const isNamed = given.length > 1 && given[1] !== undefined && !isOptions(given[1]);
  const [name, source, options] = isNamed ? given : [null, ...given];
  const [loading, call] = loadingOf(options);
  const discard = ({ handle }) => connection.release(handle);
  const { handle, name: task, calls, form } = await connection.call("task", [name, sourceOf(source), loading], { ...call, discard });
  const ask = (kind, ...method) => (...given) => {
    const [inputs, named, own] = split(given);
    return connection.call(kind, [handle, ...method, inputs, named], { ...own, discard: (made) => made?.close?.() });
  };
  return Object.assign(ask("do"), {
    ...Object.fromEntries(calls.map((method) => [method, ask("call", method)])),
    task,
    form,
    stream: ask("stream"),
    close: () => connection.release(handle),
  });
}
