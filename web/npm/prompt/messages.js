// Prompts: checked as the standard says, and made into messages of requests.

import { pixelsOf } from "../pictures.js";
import { domError } from "./errors.js";
import { responseMessage } from "./tools.js";

const emptyText = () => ({ type: "text", value: "" });
const isBytes = (value) => value instanceof ArrayBuffer || ArrayBuffer.isView(value);
const SOURCES = ["Blob", "ImageData", "ImageBitmap", "VideoFrame", "OffscreenCanvas", "HTMLImageElement", "SVGImageElement", "HTMLCanvasElement", "HTMLVideoElement"];
const isPicture = (value) => isBytes(value) || SOURCES.some((name) => globalThis[name] && value instanceof globalThis[name]);

export const expectedTypes = (expected) => new Set(["text", ...expected.map(({ type }) => type)]);

// Returns messages with their texts joined; throws what the standard says.
// types        what a session expects besides text
// hasMessages  whether other messages come before
export function checked(prompt, types, hasMessages) {
  const messages = prompt.length ? prompt : [{ role: "user", prefix: false, content: [] }];
  return messages.map(({ role, prefix, content }, at) => {
    if (prefix && role !== "assistant") throw domError("SyntaxError", "prefix is for messages of the assistant");
    if (prefix && at < messages.length - 1) throw domError("SyntaxError", "prefix is for the last message");
    if (role === "system" && (hasMessages || at > 0)) throw new TypeError("a message of the system comes before all others");
    const parts = content.length ? content : [emptyText()];
    parts.forEach((part) => checkPart(part, role, types));
    return { role, prefix, content: joined(parts) };
  });
}

function checkPart({ type, value }, role, types) {
  if (role === "assistant" && type !== "text") throw domError("NotSupportedError", "messages of the assistant are text");
  if (type === "text" && typeof value !== "string") throw new TypeError("the value of a text is not a string");
  if (type !== "text" && !types.has(type)) throw domError("NotSupportedError", `the session was created without expectedInputs of the type ${type}`);
  if (type === "image" && !isPicture(value)) throw new TypeError("the value of an image is not an image");
  if (type === "audio" || type === "tool-call") throw domError("NotSupportedError", `no model reads messages of the type ${type}`);
  if (type === "tool-response") responseMessage(value);
}

function joined(parts) {
  const found = [];
  for (const part of parts) {
    const last = found.at(-1);
    if (part.type === "text" && last?.type === "text") last.value += part.value;
    else found.push({ ...part });
  }
  return found;
}

// Promises {data, shape} with the pixels of an image, as it is when this is called.
export async function pixelsOfImage(value) {
  let source = isBytes(value) ? new Blob([value]) : value;
  if (globalThis.HTMLImageElement && source instanceof HTMLImageElement) {
    if (!source.complete) await source.decode();
    const sized = pixelsOf(source);
    if (sized.data.length) return sized;
  }
  if (globalThis.HTMLVideoElement && source instanceof HTMLVideoElement && source.readyState < HTMLMediaElement.HAVE_CURRENT_DATA) {
    await new Promise((resolve, reject) => {
      source.addEventListener("loadeddata", resolve, { once: true });
      source.addEventListener("error", () => reject(domError("InvalidStateError", "the video cannot be read")), { once: true });
    });
  }
  source = await createImageBitmap(source);
  try {
    return pixelsOf(source);
  } finally {
    source.close();
  }
}

// Starts to read the images of a prompt: pages may change them after the call.
export function startReading(prompt, types) {
  if (!types.has("image")) return prompt;
  for (const message of prompt) {
    for (const part of message.content) {
      if (part.type === "image" && message.role !== "assistant" && isPicture(part.value)) {
        part.pixels = pixelsOfImage(part.value);
        part.pixels.catch(() => {}); // it is awaited later, or another part is refused first
      }
    }
  }
  return prompt;
}

// Promises the messages of requests.
// see  reads pixels, and promises what stands for them in requests
export async function wired(messages, see) {
  const found = [];
  for (const { role, content } of messages) {
    const parts = [];
    for (const { type, value, pixels } of content) {
      if (type === "text") parts.push({ type: "text", text: value });
      else if (type === "image") parts.push({ type: "image_url", image_url: { url: await see(await pixels) } });
      else found.push(responseMessage(value));
    }
    if (parts.every(({ type }) => type === "text")) {
      const text = parts.map(({ text }) => text).join("");
      if (parts.length) found.push({ role, content: text });
    } else found.push({ role, content: parts });
  }
  return found;
}
