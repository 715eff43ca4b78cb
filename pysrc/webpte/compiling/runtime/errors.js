// The errors of a compiled program: named as in webpte, with what to do about each.

export class WebpteError extends Error {
    constructor(message, options) {
        super(message, options);
        this.name = new.target.title;
        this.advice = new.target.advice ?? "";
    }
}

// The names are texts, because bundlers shorten those in the code.
const define = (title, parent, advice = parent.advice) => Object.assign(class extends parent {}, { title, advice });

WebpteError.title = "WebpteError";
export const FormatError = define("FormatError", WebpteError, "Compile the program again, with the runtime of the same version.");
export const SourceError = define("SourceError", WebpteError, "Check that all files of the compiled program are served.");
export const ClosedError = define("ClosedError", WebpteError, "Open the program again.");
export const InputError = define("InputError", WebpteError, "program.methods has the inputs of each method.");
export const ResizeError = define("ResizeError", InputError, "Compile the program for this shape, too.");
export const IndexRangeError = define("IndexRangeError", InputError, "Use the tokenizer or labels that came with the model.");
export const DeviceError = define("DeviceError", WebpteError);
export const NoWebGPUError = define("NoWebGPUError", DeviceError, "Use a browser with WebGPU, on https or localhost.");
export const DeviceLostError = define("DeviceLostError", DeviceError, "Call program.recover(); state starts over.");
export const OutOfMemoryError = define("OutOfMemoryError", DeviceError, "Close other programs and tabs.");
export const ShaderError = define("ShaderError", DeviceError, "Please report it, with the GPU's name.");

const OF_ENGINE = {
    DeviceLost: DeviceLostError, OutOfMemory: OutOfMemoryError, ShaderError, Closed: ClosedError, Overflow: FormatError,
    DeviceError, SourceError, FileChangedError: SourceError,
};

// The error for one of the engine's, which has a name and a message; others stay as they are.
export function translated(error) {
    if (error instanceof WebpteError || error?.name === "AbortError") return error;
    const kind = OF_ENGINE[error?.name];
    if (kind) return new kind(error.message, { cause: error });
    return error?.name === "OperationError" || error?.name === "GPUPipelineError"
        ? new DeviceError(error.message, { cause: error }) : error;
}
