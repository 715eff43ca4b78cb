// Arguments as Web IDL converts them: dictionaries, enumerations, sequences. What does not fit is a TypeError.

const isObject = (value) => (typeof value === "object" && value !== null) || typeof value === "function";
const isSequence = (value) => isObject(value) && typeof value[Symbol.iterator] === "function";

export function dictionary(value, name) {
  if (value === undefined || value === null) return {};
  if (!isObject(value)) throw new TypeError(`${name} is not an object`);
  return value;
}

export function enumerated(value, values, name) {
  const text = `${value}`;
  if (!values.includes(text)) throw new TypeError(`${name}: '${text}' is none of ${values.join(", ")}`);
  return text;
}

export function sequence(value, name, convert) {
  if (!isSequence(value)) throw new TypeError(`${name} is not a list`);
  return Array.from(value, convert);
}

export function required(value, name) {
  if (value === undefined) throw new TypeError(`${name} is missing`);
  return value;
}

export function signalOf({ signal }) {
  if (signal !== undefined && !(signal instanceof AbortSignal)) throw new TypeError("signal is not an AbortSignal");
  return signal;
}

const ROLES = ["system", "user", "assistant"];
export const TYPES = ["text", "image", "audio", "tool-call", "tool-response"];
const MODES = ["default", "most-predictable", "predictable", "balanced", "creative", "most-creative"];

// Returns a list of messages: {role, prefix, content}, each content a list of {type, value}.
export function promptOf(input) {
  if (isSequence(input)) return Array.from(input, messageOf);
  return [{ role: "user", prefix: false, content: [{ type: "text", value: `${input}` }] }];
}

export function messageOf(given) {
  const { content, prefix, role } = dictionary(given, "a message");
  const listed = isSequence(required(content, "the content of a message"))
    ? Array.from(content, contentOf)
    : [{ type: "text", value: `${content}` }];
  return { role: enumerated(required(role, "the role of a message"), ROLES, "role"), prefix: Boolean(prefix), content: listed };
}

function contentOf(given) {
  const { type, value } = dictionary(given, "a part of a message");
  required(value, "the value of a part of a message");
  return { type: enumerated(required(type, "the type of a part of a message"), TYPES, "type"), value: isObject(value) ? value : `${value}` };
}

// Returns the expected inputs or outputs of a session. Throws a RangeError for what is no tag of a language.
function expectedOf(given, name) {
  const { languages, type } = dictionary(given, name);
  const listed = languages === undefined ? undefined : sequence(languages, "languages", (tag) => Intl.getCanonicalLocales(`${tag}`)[0]);
  return { type: enumerated(required(type, `the type of ${name}`), TYPES, "type"), languages: listed && [...new Set(listed)] };
}

// Returns the options that `availability` and `create` have in common.
export function coreOptionsOf(given) {
  const { expectedInputs, expectedOutputs, samplingMode, temperature, tools, topK } = dictionary(given, "the options");
  const expected = (list, name) => (list === undefined ? [] : sequence(list, name, (one) => expectedOf(one, name)));
  const found = {
    expectedInputs: expected(expectedInputs, "expectedInputs"),
    expectedOutputs: expected(expectedOutputs, "expectedOutputs"),
    samplingMode: samplingMode === undefined ? "default" : enumerated(samplingMode, MODES, "samplingMode"),
    temperature: temperature === undefined ? undefined : Number(temperature),
    topK: topK === undefined ? undefined : Number(topK),
    tools: tools === undefined ? [] : sequence(tools, "tools", toolOf),
  };
  if (samplingMode !== undefined && (temperature !== undefined || topK !== undefined)) {
    throw new TypeError("samplingMode stands for temperature and topK: give one or the others");
  }
  const names = found.tools.map(({ name }) => name);
  if (new Set(names).size < names.length) throw new TypeError("two tools have the same name");
  if (names.length && !found.expectedOutputs.some(({ type }) => type === "tool-call")) {
    throw new TypeError("tools need expectedOutputs with the type tool-call");
  }
  return found;
}

// Reads the schema as JSON, so that later changes, and getters that fail, have no effect then.
function toolOf(given) {
  const { description, execute, inputSchema, name } = dictionary(given, "a tool");
  for (const [key, text] of Object.entries({ name, description })) {
    if (`${required(text, `the ${key} of a tool`)}` === "") throw new TypeError(`the ${key} of a tool is empty`);
  }
  if (typeof inputSchema !== "object" || inputSchema === null) throw new TypeError("the inputSchema of a tool is not an object");
  if (inputSchema.type !== "object") throw new TypeError("the inputSchema of a tool has not the type object");
  const { properties, required: needed } = inputSchema;
  if (properties !== undefined && (typeof properties !== "object" || properties === null)) {
    throw new TypeError("the properties of an inputSchema are not an object");
  }
  if (needed !== undefined && !Array.isArray(needed)) throw new TypeError("required of an inputSchema is not a list");
  const schema = JSON.parse(JSON.stringify(inputSchema));
  if (execute !== undefined && typeof execute !== "function") throw new TypeError("execute of a tool is not a function");
  return { name: `${name}`, description: `${description}`, inputSchema: schema, execute };
}

export function promptOptionsOf(given) {
  const options = dictionary(given, "the options");
  const { omitResponseConstraintInput, responseConstraint } = options;
  if (responseConstraint !== undefined && !isObject(responseConstraint)) throw new TypeError("responseConstraint is not an object");
  if (omitResponseConstraintInput && responseConstraint === undefined) {
    throw new TypeError("omitResponseConstraintInput needs a responseConstraint");
  }
  return { responseConstraint, omits: Boolean(omitResponseConstraintInput), signal: signalOf(options) };
}
