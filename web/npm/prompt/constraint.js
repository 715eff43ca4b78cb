// Constraints of answers: JSON schemas and regular expressions.

import { domError } from "./errors.js";

const FLAGS = { i: "i", s: "s", m: "m" }; // that Python has, too; d, g, u and y change no match of a whole text

// Writes a regular expression as Python reads it.
function pythonOf({ source, flags }) {
  if (flags.includes("v")) throw domError("NotSupportedError", "the flag v of regular expressions is not supported: use u");
  const written = source
    .replace(/\\[^]|\(\?<(?![=!])|\[\^\]|\[\]/g, (found) => ({ "(?<": "(?P<", "[^]": "[\\s\\S]", "[]": "(?!)" })[found] ?? found)
    .replace(/\\u\{([0-9a-fA-F]+)\}/g, (_, digits) => `\\U${digits.padStart(8, "0")}`);
  return `(?a${[...flags].map((flag) => FLAGS[flag] ?? "").join("")})${written}`;
}

// Returns {request, guidance, check}: the parameters of requests, a text for the model, and a test of whole answers.
export function constraintOf(given) {
  if (given === undefined) return { request: {}, guidance: "", check: () => true };
  if (given instanceof RegExp) {
    const whole = new RegExp(`^(?:${given.source})$`, given.flags.replace(/[gy]/g, ""));
    return {
      request: { structured_outputs: { regex: pythonOf(given) } },
      guidance: `Answer with a text that matches this regular expression: ${given.source}`,
      check: (text) => whole.test(text),
    };
  }
  let schema;
  try {
    schema = JSON.parse(JSON.stringify(given));
  } catch (error) {
    throw domError("NotSupportedError", `the schema is not JSON: ${error.message}`);
  }
  if (typeof schema !== "object" || schema === null || Array.isArray(schema)) throw new TypeError("responseConstraint is neither a JSON schema nor a RegExp");
  return {
    request: { response_format: { type: "json_schema", json_schema: { name: "answer", schema } } },
    guidance: `Answer with JSON that fits this schema: ${JSON.stringify(schema)}`,
    check: (text) => {
      try {
        return JSON.parse(text) !== undefined;
      } catch {
        return false;
      }
    },
  };
}

// Adds a text to the last message of the user.
export function guided(messages, text) {
  const at = messages.findLastIndex(({ role }) => role === "user");
  if (!text || at < 0) return messages;
  const { content } = messages[at];
  const more = `\n\n${text}`;
  const told = typeof content === "string" ? content + more : [...content, { type: "text", text: more }];
  return messages.with(at, { ...messages[at], content: told });
}
