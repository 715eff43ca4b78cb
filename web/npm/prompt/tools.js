// Calls of tools, and what came of them, as the page and the model exchange them.

import { domError } from "./errors.js";

export class LanguageModelToolCall {
  constructor({ callID, name, arguments: given }) {
    Object.assign(this, { callID: `${callID}`, name: `${name}`, arguments: given });
  }
}

export class LanguageModelToolSuccess {
  constructor({ callID, name, result }) {
    Object.assign(this, { callID: `${callID}`, name: `${name}`, result: Array.from(result) });
  }
}

export class LanguageModelToolError {
  constructor({ callID, name, errorMessage }) {
    Object.assign(this, { callID: `${callID}`, name: `${name}`, errorMessage: `${errorMessage}` });
  }
}

const PLAIN = [Object.prototype, Array.prototype, null];
const isPlain = (value) => typeof value !== "object" || value === null || PLAIN.includes(Object.getPrototypeOf(value));

function resultText({ type, value }) {
  if (type === "image" || type === "audio") throw domError("NotSupportedError", "the result of a tool is text or an object");
  if (type !== "text" && type !== "object") throw new TypeError(`'${type}' is no type of a tool's result`);
  if (typeof value === "string") return value;
  let text;
  try {
    text = isPlain(value) ? JSON.stringify(value) : undefined;
  } catch (error) {
    throw domError("DataError", `the result of a tool is not JSON: ${error.message}`);
  }
  if (text === undefined) throw domError("DataError", "the result of a tool is not JSON");
  return text;
}

const isResponse = (value) => value instanceof LanguageModelToolSuccess || value instanceof LanguageModelToolError;

// Returns the message for a part of the type tool-response.
export function responseMessage(value) {
  if (!isResponse(value)) throw new TypeError("a tool-response is a LanguageModelToolSuccess or a LanguageModelToolError");
  const content = value instanceof LanguageModelToolError ? `Error: ${value.errorMessage}` : value.result.map(resultText).join("\n");
  return { role: "tool", tool_call_id: value.callID, name: value.name, content };
}

export const tableOf = ({ name, description, inputSchema }) => ({ type: "function", function: { name, description, parameters: inputSchema } });

// Returns the call that the model made. A model may write arguments that are no JSON.
export function callOf({ id, function: { name, arguments: text } }) {
  try {
    return new LanguageModelToolCall({ callID: id, name, arguments: JSON.parse(text || "{}") });
  } catch (error) {
    throw domError("UnknownError", `the model called ${name} with arguments that are no JSON: ${error.message}`);
  }
}

// Calls the page's functions at once. Promises the messages with their results; undefined if one has no function.
export async function executed(calls, tools) {
  const functions = calls.map(({ name }) => tools.find((tool) => tool.name === name)?.execute);
  if (!functions.every(Boolean)) return undefined;
  const results = await Promise.all(calls.map((call, at) => functions[at](call.arguments)));
  return calls.map(({ callID, name }, at) => ({ role: "tool", tool_call_id: callID, name, content: `${results[at]}` }));
}
