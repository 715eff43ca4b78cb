// Types of compiled programs. docs/use/compiled.md of webpte explains them.

export type DType =
  | "float16" | "float32" | "float64" | "bfloat16" | "int8" | "int16" | "int32" | "int64" | "uint8" | "bool";

export type TypedArray =
  | ArrayBufferView & { readonly length: number; [index: number]: number | bigint };

/** Elements with a shape: each output, and an input where a flat array does not say enough. */
export class Tensor<Data extends TypedArray = TypedArray> {
  constructor(data: Data, shape?: readonly number[], dtype?: DType);
  readonly data: Data;
  readonly shape: number[];
  readonly dtype?: DType;
}

/** A GPUBuffer or GPUDevice, which need no types of WebGPU here. */
export interface GPUBufferLike { readonly size: number; readonly usage: number; destroy(): unknown }
export interface GPUDeviceLike { readonly features: unknown; readonly limits: unknown; readonly queue: unknown }

/** A tensor that stays on the GPU, until it is destroyed. */
export interface GpuTensor {
  readonly buffer: GPUBufferLike;
  readonly shape: number[];
  readonly dtype: DType;
  read(): Promise<Tensor>;
  destroy(): void;
}

export type Input =
  | TypedArray | Tensor | GpuTensor | GPUBufferLike | { data: TypedArray; shape?: readonly number[] } | number | bigint;
export type Output = Tensor | number;

export interface Info { name: string; dtype?: DType; shape?: number[]; kind?: string }
export interface MethodInfo { inputs: Info[]; outputs: Info[]; shapes: (number[] | null)[][] }

export interface Progress { stage: "compile" | "constants"; done: number; total: number }

export interface LoadOptions {
  /** A device of the page; by default all programs share one. */
  device?: GPUDeviceLike;
  signal?: AbortSignal;
  onProgress?(progress: Progress): void;
}

/** A description in a folder, and the devices that it is for. */
export interface DeviceClass {
  file: string;
  software?: boolean;
  features?: string[];
  limits?: Record<string, number>;
  /** Whether WGSL needs packed dot products, and shapes of subgroup matrices with the size of their subgroups. */
  packedDot?: boolean;
  matrices?: string[];
  subgroup?: number;
  /** The description of a self-test; if it fails, the next description is taken. */
  test?: string;
}
export interface OpenOptions extends LoadOptions {
  descriptions?: DeviceClass[];
  /** The address of the folder with the .pte and .ptd files, by default the program's. */
  originals?: string | URL;
  /** Whether files of 64 MB and more are kept in the browser for the next visit (true). */
  keep?: boolean;
}

export interface GenerateOptions {
  maxNewTokens?: number;
  temperature?: number;
  topK?: number;
  topP?: number;
  minP?: number;
  seed?: number | bigint;
  stop?: number[];
  signal?: AbortSignal;
}

export interface WriteOptions extends GenerateOptions {
  /** Modules in place of those in the folder. */
  libraries?: { tokenizers?: unknown; jinja?: unknown };
}

export interface AnswerOptions extends WriteOptions {
  /** Of vectors of texts. */
  pooling?: "mean" | "cls";
  normalize?: boolean;
  topK?: number;
  threshold?: number;
  /** Of speech, by models that know several languages: "en", and "transcribe" or "translate". */
  language?: string;
  task?: string;
  onText?(text: string): void;
}

export interface Message { role: string; content: string }

export interface Pixels { width: number; height: number; data: Uint8ClampedArray | Uint8Array }
export interface Box { xmin: number; ymin: number; xmax: number; ymax: number }

/** Results are plain data, of these kinds. */
export type Result = { title?: string } & (
  | { kind: "scores"; scores: { label: string; score: number; at?: number }[] }
  | {
      kind: "picture"; picture: Pixels; over?: boolean; values?: TypedArray;
      legend?: { number: number; label: string; colour: string; share: number }[];
    }
  | { kind: "boxes"; width: number; height: number; boxes: { label: string; score: number; box: Box }[] }
  | { kind: "text"; text: string }
  | { kind: "similarities"; texts: string[]; vectors: Float32Array[]; similarities: number[][] }
  | { kind: "curve"; dtype?: DType; shape?: number[]; values: Float32Array }
  | { kind: "numbers"; dtype: DType; shape: number[]; values: TypedArray | number[] }
);

export interface Task {
  name?: string;
  title?: string;
  about?: string;
  method?: string;
  input: { kind: "drawing" | "picture" | "sound" | "speech" | "text" | "sentences" | "numbers" };
  outputs: { kind: string; title?: string; labels?: string[] }[];
}

export interface Program {
  readonly name: string;
  readonly methods: Record<string, MethodInfo>;
  readonly task?: Task;
  readonly device?: GPUDeviceLike;
  run(method: string, inputs?: readonly Input[]): Promise<Output[]>;
  run(method: string, inputs: readonly Input[], options: { output: "gpu" }): Promise<(GpuTensor | number)[]>;
  forward(...inputs: Input[]): Promise<Output[]>;
  generate(prompt: ArrayLike<number>, options?: GenerateOptions): AsyncGenerator<number, void>;
  write(given: string | Message[], options?: WriteOptions): AsyncGenerator<string, void>;
  answer(given: unknown, options?: AnswerOptions): Promise<Result[]>;
  recover(options?: LoadOptions): Promise<void>;
  close(): void;
}

export class WebpteError extends Error { readonly advice: string }
export class FormatError extends WebpteError {}
export class SourceError extends WebpteError {}
export class ClosedError extends WebpteError {}
export class InputError extends WebpteError {}
export class ResizeError extends InputError {}
export class IndexRangeError extends InputError {}
export class DeviceError extends WebpteError {}
export class NoWebGPUError extends DeviceError {}
export class DeviceLostError extends DeviceError {}
export class OutOfMemoryError extends DeviceError {}
export class ShaderError extends DeviceError {}
