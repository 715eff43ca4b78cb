/** The base of all errors of webpte. */
export class WebpteError extends Error {
  constructor(message: string, options?: { code?: string; details?: Record<string, unknown>; advice?: string });
  /** The class as a word, such as "out_of_memory"; of a RequestError, OpenAI's code if there is one. */
  readonly code: string;
  /** What to do. */
  readonly advice: string;
  /** What else is known, such as `ops` of an UnsupportedOpError and `param` of a RequestError. */
  readonly details: Record<string, any>;
}

export class FormatError extends WebpteError {}
export class OtherFileError extends FormatError {}
export class DescriptionError extends FormatError {}
export class UnsupportedError extends WebpteError {}
export class UnsupportedOpError extends UnsupportedError {}
export class ForeignDelegateError extends UnsupportedError {}
export class GraphError extends WebpteError {}
export class ValueKindError extends GraphError {}
export class ConstantError extends GraphError {}
export class PrepackError extends GraphError {}
export class PrepackArityError extends PrepackError {}
export class PrepackSourceError extends PrepackError {}
export class PrepackElementSizeError extends PrepackError {}
export class PrepackDTypeError extends PrepackError {}
export class PrepackByteSizeError extends PrepackError {}
export class PrepackShapeError extends PrepackError {}
export class PrepackBufferError extends PrepackError {}
export class ExecutionError extends WebpteError {}
export class InputError extends ExecutionError {}
export class ResizeError extends ExecutionError {}
export class ContextError extends ExecutionError {}
export class IndexRangeError extends ExecutionError {}
export class DeviceError extends WebpteError {}
export class NoWebGPUError extends DeviceError {}
export class DeviceLostError extends DeviceError {}
export class FaultyDeviceError extends DeviceError {}
export class OutOfMemoryError extends DeviceError {}
export class ShaderError extends DeviceError {}
export class TextError extends WebpteError {}
export class ChatTemplateError extends TextError {}
export class VocabularyError extends TextError {}
export class PackageError extends WebpteError {}
export class SourceError extends WebpteError {}
export class FileChangedError extends SourceError {}
export class DigestError extends SourceError {}
export class ManifestError extends SourceError {}
export class RepositoryError extends SourceError {}
export class RepositoryNameError extends RepositoryError {}
export class RepositoryAccessError extends RepositoryError {}
export class DocumentError extends SourceError {}
export class ClosedError extends WebpteError {}
export class RequestError extends InputError {}
export class StartError extends WebpteError {}
