// Types of `webpte/prompt`: the Prompt API. docs/use/prompt_api.md explains them.

import type { ClientOptions, Runtime } from "../index.js";

export type Availability = "unavailable" | "downloadable" | "downloading" | "available";
export type LanguageModelMessageRole = "system" | "user" | "assistant";
export type LanguageModelMessageType = "text" | "image" | "audio" | "tool-call" | "tool-response";
export type LanguageModelSamplingMode = "most-predictable" | "predictable" | "balanced" | "creative" | "most-creative";

export interface LanguageModelMessageContent {
  type: LanguageModelMessageType;
  value: string | ImageBitmapSource | BufferSource | LanguageModelToolSuccess | LanguageModelToolError;
}

export interface LanguageModelMessage {
  role: LanguageModelMessageRole;
  content: string | LanguageModelMessageContent[];
  /** The answer continues this message, the last one, which is the assistant's. */
  prefix?: boolean;
}

export type LanguageModelPrompt = string | LanguageModelMessage[];

export interface LanguageModelExpected {
  type: LanguageModelMessageType;
  languages?: string[];
}

export interface LanguageModelTool {
  name: string;
  description: string;
  /** A JSON schema of the type object. */
  inputSchema: object;
  /** Gets the arguments as an object. Without it, `prompt` returns the calls. */
  execute?(args: any): Promise<string> | string;
}

export interface LanguageModelCreateCoreOptions {
  topK?: number;
  temperature?: number;
  samplingMode?: LanguageModelSamplingMode | "default";
  expectedInputs?: LanguageModelExpected[];
  expectedOutputs?: LanguageModelExpected[];
  tools?: LanguageModelTool[];
}

export interface CreateMonitor extends EventTarget {
  ondownloadprogress: ((this: CreateMonitor, event: ProgressEvent) => unknown) | null;
  addEventListener(type: "downloadprogress", listener: (event: ProgressEvent) => unknown, options?: boolean | AddEventListenerOptions): void;
  addEventListener(type: string, listener: EventListenerOrEventListenerObject | null, options?: boolean | AddEventListenerOptions): void;
}

export interface LanguageModelCreateOptions extends LanguageModelCreateCoreOptions {
  /** Ends the creation, and afterwards destroys the session. */
  signal?: AbortSignal;
  monitor?(monitor: CreateMonitor): void;
  /** Messages that are never dropped. */
  initialPrompts?: LanguageModelMessage[];
}

export interface LanguageModelPromptOptions {
  /** A JSON schema, or a RegExp that the whole answer matches. */
  responseConstraint?: object | RegExp;
  omitResponseConstraintInput?: boolean;
  signal?: AbortSignal;
}

export interface LanguageModelParams {
  readonly defaultTopK: number;
  readonly maxTopK: number;
  readonly defaultTemperature: number;
  readonly maxTemperature: number;
}

export class LanguageModelToolCall {
  constructor(init: { callID: string; name: string; arguments: any });
  readonly callID: string;
  readonly name: string;
  readonly arguments: any;
}

export class LanguageModelToolSuccess {
  constructor(init: { callID: string; name: string; result: { type: "text" | "object"; value: unknown }[] });
  readonly callID: string;
  readonly name: string;
  readonly result: { type: "text" | "object"; value: unknown }[];
}

export class LanguageModelToolError {
  constructor(init: { callID: string; name: string; errorMessage: string });
  readonly callID: string;
  readonly name: string;
  readonly errorMessage: string;
}

/** A part of an answer with calls of tools. */
export type LanguageModelAnswerPart = { type: "text"; value: string } | { type: "tool-call"; value: LanguageModelToolCall };

export interface LanguageModel extends EventTarget {
  /** A list only if tools without `execute` were called. */
  prompt(input: LanguageModelPrompt, options?: LanguageModelPromptOptions): Promise<string | LanguageModelAnswerPart[]>;
  promptStreaming(input: LanguageModelPrompt, options?: LanguageModelPromptOptions): ReadableStream<string | LanguageModelAnswerPart>;
  append(input: LanguageModelPrompt, options?: { signal?: AbortSignal }): Promise<undefined>;
  measureContextUsage(input: LanguageModelPrompt, options?: LanguageModelPromptOptions): Promise<number>;
  readonly contextUsage: number;
  readonly contextWindow: number;
  oncontextoverflow: ((event: Event) => unknown) | null;
  /** @deprecated measureContextUsage */
  measureInputUsage(input: LanguageModelPrompt, options?: LanguageModelPromptOptions): Promise<number>;
  /** @deprecated contextUsage */
  readonly inputUsage: number;
  /** @deprecated contextWindow */
  readonly inputQuota: number;
  /** @deprecated oncontextoverflow */
  onquotaoverflow: ((event: Event) => unknown) | null;
  readonly topK: number;
  readonly temperature: number;
  readonly samplingMode: LanguageModelSamplingMode;
  clone(options?: { signal?: AbortSignal }): Promise<LanguageModel>;
  destroy(): void;
}

export interface LanguageModelClass {
  readonly prototype: LanguageModel;
  create(options?: LanguageModelCreateOptions): Promise<LanguageModel>;
  availability(options?: LanguageModelCreateCoreOptions): Promise<Availability>;
  params(): Promise<LanguageModelParams | null>;
}

export interface ModelOptions extends Omit<ClientOptions, "signal" | "onProgress"> {
  /** Languages that the model knows; without them, all that the browser has a name for. */
  languages?: string[];
  /** The most tokens of an answer. */
  answerTokens?: number;
  /** Whether `create` needs a click or key of the user where it has to download, as in browsers. */
  activation?: boolean;
  runtime?: Runtime;
}

/** Returns the class LanguageModel for a model: an address, or hf:owner/name. */
export function languageModel(source: string | URL, options?: ModelOptions): LanguageModelClass;

export interface InstallOptions extends ModelOptions {
  /** By default the browser's own LanguageModel is used where it has one that does what is needed. */
  prefer?: "browser" | "webpte";
  needs?: LanguageModelCreateCoreOptions;
}

/** Sets the global LanguageModel, unless the browser's own is used; resolves to the one that is. */
export function install(source: string | URL, options?: InstallOptions): Promise<LanguageModelClass>;
