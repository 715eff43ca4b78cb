// The classes of webpte's errors, as in Python (webpte/errors.py), with what to do about each.
//
// An error has `name` (its class), `code` (the same as a word, or OpenAI's code), `message`, `advice`, and `details`:
// what else the error of Python holds, such as `ops` of an UnsupportedOpError.

export class WebpteError extends Error {
  static advice = "";

  constructor(message, { code = "webpte", details = {}, advice } = {}) {
    super(message);
    this.name = new.target.name;
    this.code = code;
    this.details = details;
    this.advice = advice ?? details.advice ?? new.target.advice;
  }

  // Returns the error for one that Python described (npm/worker.py).
  static from({ classes, code, message, details }) {
    const kind = CLASSES.get(classes.find((name) => CLASSES.has(name)));
    return new kind(message, { code, details });
  }
}

const CLASSES = new Map();

// The names are texts, because bundlers shorten those in the code. Without advice, a class has its parent's.
function named(made, name, advice) {
  Object.defineProperty(made, "name", { value: name });
  if (advice !== undefined) made.advice = advice;
  CLASSES.set(name, made);
  return made;
}

const define = (name, parent, advice) => named(class extends parent {}, name, advice);
named(WebpteError, "WebpteError");

const AGAIN = "Load it again.";
const REPORT = "Please report it.";

export const FormatError = define("FormatError", WebpteError, "Fetch or export the file again.");
export const OtherFileError = define("OtherFileError", FormatError);
export const DescriptionError = define("DescriptionError", FormatError);
export const UnsupportedError = define("UnsupportedError", WebpteError, "Export with other options.");
export const UnsupportedOpError = define("UnsupportedOpError", UnsupportedError);
export const ForeignDelegateError = define("ForeignDelegateError", UnsupportedError,
  "Export with the Vulkan partitioner.");
export const GraphError = define("GraphError", WebpteError, `Export again. ${REPORT}`);
export const ValueKindError = define("ValueKindError", GraphError, REPORT);
export const ConstantError = define("ConstantError", GraphError,
  "Give the weights: load(url, { data: [\"weights.ptd\"] }).");
export const PrepackError = define("PrepackError", GraphError, REPORT);
export const PrepackArityError = define("PrepackArityError", PrepackError);
export const PrepackSourceError = define("PrepackSourceError", PrepackError);
export const PrepackElementSizeError = define("PrepackElementSizeError", PrepackError);
export const PrepackDTypeError = define("PrepackDTypeError", PrepackError);
export const PrepackByteSizeError = define("PrepackByteSizeError", PrepackError);
export const PrepackShapeError = define("PrepackShapeError", PrepackError);
export const PrepackBufferError = define("PrepackBufferError", PrepackError);
export const ExecutionError = define("ExecutionError", WebpteError);
export const InputError = define("InputError", ExecutionError);
export const ResizeError = define("ResizeError", ExecutionError, "Use sizes that the export allowed.");
export const ContextError = define("ContextError", ExecutionError,
  "Wait for an answer, or cancel it, before the next.");
export const IndexRangeError = define("IndexRangeError", ExecutionError, "Use the tokenizer that came with the model.");
export const DeviceError = define("DeviceError", WebpteError);
export const NoWebGPUError = define("NoWebGPUError", DeviceError,
  "Use a browser with WebGPU, on https or localhost; load(url, { device: \"numpy\" }) runs anywhere, slowly.");
export const DeviceLostError = define("DeviceLostError", DeviceError, "Call program.recover(); caches start empty.");
export const FaultyDeviceError = define("FaultyDeviceError", DeviceError,
  "Update browser and driver, or load with { device: \"numpy\" }.");
export const OutOfMemoryError = define("OutOfMemoryError", DeviceError,
  "Quantize the model, or load it with a smaller maxContext.");
export const ShaderError = define("ShaderError", DeviceError, `${REPORT} Name program.device.`);
export const TextError = define("TextError", WebpteError, "Put the model's own tokenizer.json next to the program.");
export const ChatTemplateError = define("ChatTemplateError", TextError,
  "Put tokenizer_config.json next to tokenizer.json.");
export const VocabularyError = define("VocabularyError", TextError, "Use the tokenizer that came with the model.");
export const PackageError = define("PackageError", WebpteError,
  "Check that everything of `npx webpte copy-runtime` is served.");
export const SourceError = define("SourceError", WebpteError,
  "Open the address in a tab; another site has to allow yours (CORS).");
export const FileChangedError = define("FileChangedError", SourceError, AGAIN);
export const DigestError = define("DigestError", SourceError,
  `${AGAIN} If the hashes differ again, write the manifest again.`);
export const ManifestError = define("ManifestError", SourceError);
export const RepositoryError = define("RepositoryError", SourceError);
export const RepositoryNameError = define("RepositoryNameError", RepositoryError);
export const RepositoryAccessError = define("RepositoryAccessError", RepositoryError);
export const DocumentError = define("DocumentError", SourceError);
export const ClosedError = define("ClosedError", WebpteError, AGAIN);
export const RequestError = define("RequestError", InputError, "error.details.param names the parameter.");
// Of JavaScript alone: Python did not start, or its worker died.
export const StartError = define("StartError", WebpteError,
  "Check that the address of Pyodide (indexURL) answers, and that the page's policy allows its worker.");
