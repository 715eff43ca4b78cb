// Types of webpte for JavaScript. docs/use/javascript.md explains them.

export * from "./errors.js";

/** The version of webpte, and that of the Pyodide it was tested with. */
export const version: string;
export const pyodideVersion: string;

export type DType =
  | "float16" | "float32" | "float64" | "int8" | "int16" | "int32" | "int64"
  | "uint8" | "uint16" | "uint32" | "uint64" | "bool";

/** A Float16Array, which older libraries of TypeScript do not know. */
export interface Float16ArrayLike extends ArrayBufferView {
  readonly length: number;
  readonly BYTES_PER_ELEMENT: number;
  [index: number]: number;
}

export type TypedArray =
  | Float16ArrayLike | Float32Array | Float64Array | Int8Array | Int16Array | Int32Array | BigInt64Array
  | Uint8Array | Uint8ClampedArray | Uint16Array | Uint32Array | BigUint64Array;

/** Elements with a shape. `float16` is a Float16Array, or its bits in a Uint16Array where the browser has none. */
export class Tensor<Data extends TypedArray = TypedArray> {
  constructor(data: Data, shape?: readonly number[], dtype?: DType);
  readonly data: Data;
  readonly shape: number[];
  readonly dtype: DType;
}

/** A tensor that stays on the GPU; every program of its runtime takes it as an input. */
export class GpuTensor {
  private constructor();
  readonly shape: number[];
  readonly dtype: DType;
  /** The GPUBuffer, in a runtime of `webpte/here`; a worker of its own cannot hand it out. */
  readonly buffer?: GPUBufferLike;
  read(options?: { signal?: AbortSignal }): Promise<Tensor>;
  destroy(): Promise<void>;
}

/** A GPUBuffer, which needs no types of WebGPU here. */
export interface GPUBufferLike {
  readonly size: number;
  readonly usage: number;
  destroy(): unknown;
}

/** Plain numbers, bools and texts are for inputs that are no tensors. A flat array takes the shape of a fixed input. */
export type Input =
  | TypedArray | Tensor | GpuTensor | { data: TypedArray; shape?: readonly number[]; dtype?: DType }
  | GPUBufferLike | number | bigint | boolean | string | null;
export type Output = Tensor | number | bigint | boolean | string | null;

export interface Progress {
  /** python, fetch, check, read, compile or constants */
  stage: string;
  done: number;
  total: number;
}

export interface CallOptions {
  signal?: AbortSignal;
  onProgress?: (progress: Progress) => void;
}

/** A URL (relative to the page), a file, or its bytes. */
export type Source = string | URL | Blob | ArrayBuffer | ArrayBufferView;

export interface LoadOptions extends CallOptions {
  device?: "webgpu" | "numpy";
  /** The .ptd files of the program. */
  data?: Source[];
  name?: string;
  strict?: boolean;
  /** Keep the files in the browser, and take them from there the next time. */
  keep?: boolean;
  maxContext?: number;
  kvCache?: "f32" | "f16" | "int8";
  /** Round prompts of models with weights of 4 or 8 bits: faster, with a small error. */
  int8Products?: boolean;
}

export interface ClientOptions extends LoadOptions {
  /** Requests that are answered at once, where the program allows it. */
  slots?: number;
  /** Requests that may wait; more are refused. */
  waiting?: number;
  tokenizer?: string | URL;
}

export interface TensorInfo {
  name: string;
  kind: "tensor";
  /** Of `bfloat16` a program takes and returns float32. */
  dtype: DType | "bfloat16";
  /** The largest one, if it is dynamic. */
  shape: number[];
  dynamic: boolean;
  bounds: [number, number][];
}

export interface ScalarInfo {
  name: string;
  kind: "int" | "float" | "bool" | "str" | "None";
  value: number | bigint | boolean | string | null;
}

/** A file of a repository; for programs its backend, whether that runs here, and whether the name opens it. */
export interface HubFile {
  path: string;
  size: number;
  sha256: string;
  backend: string;
  precision: string;
  runs: boolean;
  chosen: boolean;
}

export interface MethodInfo {
  name: string;
  inputs: (TensorInfo | ScalarInfo)[];
  outputs: (TensorInfo | ScalarInfo)[];
  operators: Record<string, number>;
  unsupported: Record<string, number>;
  isConstant: boolean;
  keepsState: boolean;
  constantBytes: number;
}

export interface DeviceInfo {
  kind: string;
  vendor: string;
  architecture: string;
  description: string;
  software: boolean;
  features: string[];
}

export class Program {
  private constructor();
  readonly name: string;
  readonly methods: Record<string, MethodInfo>;
  /** Values of methods that return what the file holds, such as the largest context. */
  readonly metadata: Record<string, Output | Output[]>;
  readonly device: DeviceInfo;
  forward(...inputs: Input[]): Promise<Tensor[]>;
  run(method: string, inputs?: readonly Input[], options?: CallOptions & { output?: "array" }): Promise<Output[]>;
  run(method: string, inputs: readonly Input[], options: CallOptions & { output: "gpu" }): Promise<GpuTensor[]>;
  stats(): Promise<Record<string, number | Record<string, number>>>;
  recover(options?: CallOptions): Promise<void>;
  close(): Promise<void>;
}

/** What a page asks for: texts, each with an example (`start`), and options that are numbers or fixed. */
export interface TaskForm {
  /** The first input; "text" if there are only texts. */
  kind: "picture" | "sound" | "text";
  /** Texts; one with a `split` is a list, one that is `named` an option, all others are inputs in this order. */
  fields: { name: string; label: string; start: string; rows: number; split: string; named: boolean }[];
  sliders: { name: string; label: string; start: number; low: number; high: number; step: number }[];
  fixed: Record<string, unknown>;
  /** Whether the option `points` takes places of the picture that someone clicked. */
  points: boolean;
}

export interface Task {
  /** The inputs of the task; an object after the first one has its options, `signal` and `onProgress`. */
  (...given: unknown[]): Promise<any>;
  readonly task: string;
  /** null if a form is not enough, as for conversations. */
  readonly form: TaskForm | null;
  stream(...given: unknown[]): Promise<AsyncIterableIterator<any>>;
  close(): Promise<void>;
}

/** A text with its name, an address, or a file (a Blob or File) of text, Markdown or PDF. */
export type DocumentSource = { name: string; text: string } | string | URL | Blob;

export interface AddedDocument {
  name: string;
  text: string;
  sections: { start: number; end: number; page: number | null; heading: string }[];
}

export interface RetrievalTask extends Task {
  /** Adds documents to those that are searched; one of the same name is replaced. */
  add(documents: DocumentSource | DocumentSource[], options?: CallOptions): Promise<AddedDocument[]>;
}

export interface MusicTask extends Task {
  /** Returns notes, as the task gives them, as the bytes of a MIDI file. */
  midi(notes: object[], options?: { midi_tempo?: number; multiple_pitch_bends?: boolean }): Promise<Tensor<Uint8Array>>;
}

/** A picture that was read once, to be asked about as often as one likes; its memory is freed by `close`. */
export interface SeenPicture {
  readonly height: number;
  readonly width: number;
  close(): Promise<void>;
}

/** What shows a thing: points (x, y) with labels (1 belongs to it, 0 does not), or a box; all in pixels of the picture. */
export interface MaskPrompt extends CallOptions {
  points?: (readonly [number, number])[];
  labels?: (0 | 1)[];
  box?: readonly [left: number, top: number, right: number, bottom: number];
  mask_threshold?: number;
}

/** Masks (height, width) of bools, the best first, and how good each is. */
export interface FoundMasks {
  masks: Tensor<Uint8Array>[];
  scores: number[];
}

export interface MaskTask extends Task {
  (pictures: readonly unknown[], prompt: MaskPrompt): Promise<FoundMasks[]>;
  /** Takes a picture, or one that `look` has read. */
  (picture: unknown, prompt: MaskPrompt): Promise<FoundMasks>;
  /** Reads a picture, which is the larger part of the work. */
  look(picture: unknown, options?: CallOptions): Promise<SeenPicture>;
}

export interface ChatMessage {
  role: "system" | "developer" | "user" | "assistant" | "tool";
  content: string | null | ({ type: "text"; text: string } | { type: "image_url"; image_url: { url: string | SeenPicture } })[];
  [more: string]: unknown;
}

export interface ChatRequest {
  /** May be left out if there is one model only. */
  model?: string;
  messages: ChatMessage[];
  stream?: boolean;
  max_tokens?: number;
  temperature?: number;
  top_p?: number;
  stop?: string | string[];
  seed?: number;
  n?: number;
  /** The answer continues the last message, which is the assistant's. */
  continue_final_message?: boolean;
  /** An expression of Python's `re` that the whole answer matches. */
  structured_outputs?: { regex: string };
  [more: string]: unknown;
}

export interface Usage {
  prompt_tokens: number;
  completion_tokens: number;
  total_tokens: number;
  [more: string]: unknown;
}

export interface ChatCompletion {
  id: string;
  object: "chat.completion";
  created: number;
  model: string;
  choices: {
    index: number;
    message: { role: "assistant"; content: string | null; tool_calls?: any[]; [more: string]: unknown };
    finish_reason: string;
    logprobs: any;
  }[];
  usage: Usage;
}

export interface ChatCompletionChunk {
  id: string;
  object: "chat.completion.chunk";
  created: number;
  model: string;
  choices: {
    index: number;
    delta: { role?: "assistant"; content?: string | null; tool_calls?: any[]; [more: string]: unknown };
    finish_reason: string | null;
    logprobs?: any;
  }[];
  usage?: Usage | null;
}

interface RequestOptions {
  signal?: AbortSignal;
}

export interface Model {
  id: string;
  object: "model";
  created: number;
  owned_by: string;
}

export class Client {
  private constructor();
  readonly chat: {
    completions: {
      create(body: ChatRequest & { stream: true }, options?: RequestOptions): Promise<AsyncIterableIterator<ChatCompletionChunk>>;
      create(body: ChatRequest & { stream?: false }, options?: RequestOptions): Promise<ChatCompletion>;
    };
  };
  readonly completions: { create(body: Record<string, unknown>, options?: RequestOptions): Promise<any> };
  readonly embeddings: { create(body: Record<string, unknown>, options?: RequestOptions): Promise<any> };
  readonly models: { list(): Promise<{ object: "list"; data: Model[] }>; retrieve(name: string): Promise<Model> };
  rerank(body: Record<string, unknown>, options?: RequestOptions): Promise<any>;
  /** Counts the tokens of a request for chat completions, however many they are; `max_model_len` is the context. */
  tokenize(body: ChatRequest & { add_generation_prompt?: boolean }, options?: RequestOptions): Promise<{ count: number; max_model_len: number | null }>;
  /** Reads a picture once, to be the `url` of an `image_url` in any number of requests. */
  picture(picture: unknown, options?: RequestOptions & { model?: string }): Promise<SeenPicture>;
  /** Builds the programs anew after a DeviceLostError. */
  recover(options?: RequestOptions): Promise<void>;
  close(): Promise<void>;
}

export interface RuntimeOptions {
  /** The folder of Pyodide's files; by default on Pyodide's own server (jsDelivr). */
  indexURL?: string | URL;
  /** Another server than huggingface.co for names such as "hf:owner/name". */
  hubURL?: string | URL;
}

/** Python in a worker of its own. The functions below share one. */
export class Runtime {
  constructor(options?: RuntimeOptions & { worker?: Worker });
  readonly ended: boolean;
  load(source: Source, options?: LoadOptions): Promise<Program>;
  inspect(source: Source, options?: CallOptions): Promise<Record<string, MethodInfo>>;
  /** Lists the files of a repository of the Hugging Face Hub, "hf:owner/name". */
  hubFiles(source: string, options?: CallOptions): Promise<HubFile[]>;
  task(name: "retrieval", source: string | URL, options?: LoadOptions): Promise<RetrievalTask>;
  task(name: "mask-generation", source: string | URL, options?: LoadOptions): Promise<MaskTask>;
  task(name: "audio-to-midi", source: string | URL, options?: LoadOptions): Promise<MusicTask>;
  task(name: string, source: string | URL, options?: LoadOptions): Promise<Task>;
  /** Opens a model whose files say what it does. */
  task(source: string | URL, options?: LoadOptions): Promise<Task>;
  tasks(): Promise<string[]>;
  openai(models: string | URL | Record<string, string | URL>, options?: ClientOptions): Promise<Client>;
  /** Whether a language model takes pictures; reads the head of its file only. */
  sees(source: string | URL, options?: { keep?: boolean; signal?: AbortSignal }): Promise<boolean>;
  close(): void;
}

export function configure(options: RuntimeOptions): void;
export const load: Runtime["load"];
export const inspect: Runtime["inspect"];
export const hubFiles: Runtime["hubFiles"];
export const task: Runtime["task"];
export const tasks: Runtime["tasks"];
export const openai: Runtime["openai"];
export const sees: Runtime["sees"];
export function close(): void;
