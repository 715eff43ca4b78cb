// Tasks: models by what they do. A task is a function with `close`.

import { loadingOf, sourceOf } from "./source.js";

const isOptions = (value) => value !== null && typeof value === "object" && Object.getPrototypeOf(value) === Object.prototype
  && !ArrayBuffer.isView(value.data);

// Splits arguments: an object after the first one is options, among which `signal` is not Python's.
function split(given) {
  const last = given.at(-1);
  const { signal, ...options } = given.length > 1 && isOptions(last) ? last : {};
  return [given.length > 1 && isOptions(last) ? given.slice(0, -1) : given, options, signal];
}

export async function openTask(connection, name, source, options) {
  const [loading, call] = loadingOf(options);
  const discard = ({ handle }) => connection.release(handle);
  const { handle } = await connection.call("task", [name, sourceOf(source), loading], { ...call, discard });
  const ask = (kind) => (...given) => {
    const [inputs, named, signal] = split(given);
    return connection.call(kind, [handle, inputs, named], { signal });
  };
  return Object.assign(ask("do"), {
    task: name,
    stream: ask("stream"),
    close: () => connection.release(handle),
  });
}
