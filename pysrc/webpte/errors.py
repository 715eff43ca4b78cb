"""Every error that webpte raises on purpose.

WebpteError
├── FormatError                 the bytes are not a valid file; has the byte offset
│   ├── OtherFileError          a file of another kind; has the kind, and what to do
│   └── DescriptionError        the description of a compiled program is not valid
├── UnsupportedError            a valid file that asks for something this runtime does not have
│   ├── UnsupportedOpError      operators without an implementation, all of them, by name and count
│   └── ForeignDelegateError    a delegate compiled for another backend
├── GraphError                  the graph contradicts itself; names the op or value
│   ├── ValueKindError          a value is of another kind than the graph uses it as
│   ├── ConstantError           a constant has no bytes, or too few
│   └── PrepackError            a prepack node that breaks its contract
│       ├── PrepackArityError          not exactly (source, output)
│       ├── PrepackSourceError         nothing gives its source a value
│       ├── PrepackElementSizeError    element sizes differ
│       ├── PrepackDTypeError          element types differ, though not in size
│       ├── PrepackByteSizeError       byte sizes differ
│       ├── PrepackShapeError          dims differ
│       └── PrepackBufferError         the output does not own its buffer
├── ExecutionError              a call failed for a reason without a separate class
│   ├── InputError              wrong number, rank, dtype or size of an input
│   ├── ResizeError             a live shape that the graph cannot take
│   ├── ContextError            a conversation lost its KV cache, or is busy with an answer
│   └── IndexRangeError         an element of an index tensor is out of range
├── DeviceError                 the GPU failed, or is not reachable
│   ├── NoWebGPUError           this browser or interpreter offers no adapter
│   ├── DeviceLostError         the device went away; `recover` the program, or load it again
│   ├── FaultyDeviceError       the GPU computes wrong results; names what failed, and what to do
│   ├── OutOfMemoryError        an allocation failed or is over a limit; has the sizes
│   └── ShaderError             a kernel did not compile: a bug in webpte
├── TextError                   text and tokens do not match, or a tokenizer is missing or broken
│   ├── ChatTemplateError       a chat template is missing, is wrong, or refuses the messages
│   └── VocabularyError         the tokenizer has tokens that the model does not know
├── PackageError                an optional package is missing; says how to install it
├── SourceError                 the file could not be fetched or read
│   ├── FileChangedError        the file changed on its server while it was being read
│   ├── DigestError             its SHA-256 differs from its manifest's; has both
│   ├── ManifestError           a manifest is not valid
│   ├── RepositoryError         a repository does not exist, or has no program that runs here
│   │   ├── RepositoryNameError        a name is not hf:OWNER/NAME[/PATH][@REVISION]
│   │   └── RepositoryAccessError      a repository is gated or private
│   └── DocumentError           a document is broken, encrypted, too large, or has no text
└── ClosedError                 the program was closed, or the GPU tensor destroyed
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar


class WebpteError(Exception):
    """Base of all errors that webpte raises on purpose."""

    def __reduce__(self) -> tuple[Any, ...]:
        """Make the error picklable, for other processes, whatever arguments its class takes."""
        return _restored, (type(self), self.args, vars(self))


class FormatError(WebpteError):
    """The bytes are not a valid `.pte`, `.ptd` or delegate blob."""

    def __init__(self, message: str, offset: int) -> None:
        super().__init__(f"{message}{self._place(offset)}")
        self.offset = offset

    def _place(self, offset: int) -> str:
        return f" (at byte {offset})"


class OtherFileError(FormatError):
    """A file of another kind than `wanted`: `kind` names it, `advice` is what to do with it."""

    def __init__(
        self, kind: str, advice: str, offset: int, wanted: str = "an ExecuTorch program"
    ) -> None:
        super().__init__(f"not {wanted} but {kind}: {advice}", offset)
        self.kind = kind
        self.advice = advice

    def _place(self, offset: int) -> str:
        return ""  # the byte itself is valid


class DescriptionError(FormatError):
    """The description of a compiled program is not valid: `file` names it."""

    def __init__(self, file: str, problem: str, offset: int = 0) -> None:
        super().__init__(f"{file} describes no compiled program: {problem}", offset)
        self.file = file

    def _place(self, offset: int) -> str:
        return f" (at byte {offset})" if offset else ""


class UnsupportedError(WebpteError):
    """A valid file asks for something that this runtime does not have."""


class UnsupportedOpError(UnsupportedError):
    """Operators without an implementation: all of them at once, with their counts."""

    def __init__(self, where: str, ops: Mapping[str, int], advice: str = "") -> None:
        self.ops = dict(sorted(ops.items()))
        listed = ", ".join(f"{name} ×{count}" for name, count in self.ops.items())
        super().__init__(
            f"{where}: {len(self.ops)} operator{'s' if len(self.ops) != 1 else ''} "
            f"not supported by this version of webpte: {listed}" + (advice and f"; {advice}")
        )


class ForeignDelegateError(UnsupportedError):
    """A part of the program was compiled for another backend."""


class GraphError(WebpteError):
    """The graph contradicts itself."""


class ValueKindError(GraphError):
    """A value is of another kind than the graph uses it as."""


class ConstantError(GraphError):
    """A constant has no bytes, or too few."""


class PrepackError(GraphError):
    """A prepack node that breaks its contract."""


class PrepackArityError(PrepackError):
    """The node does not have exactly (source, output)."""


class PrepackSourceError(PrepackError):
    """The source is neither a constant, nor an input, nor computed before the prepack."""


class PrepackElementSizeError(PrepackError):
    """Source and output have elements of different sizes."""


class PrepackDTypeError(PrepackError):
    """Source and output have elements of different types of one size."""


class PrepackByteSizeError(PrepackError):
    """Source and output have different byte sizes."""


class PrepackShapeError(PrepackError):
    """Source and output have different dims."""


class PrepackBufferError(PrepackError):
    """The output does not own its buffer."""


class ExecutionError(WebpteError):
    """A call failed for a reason that has no separate class. The cause is chained."""


class InputError(ExecutionError):
    """Wrong number, rank, dtype or size of an input."""


class ResizeError(ExecutionError):
    """A live shape that the graph cannot take."""


class ContextError(ExecutionError):
    """A conversation cannot continue: its KV cache is gone, or another answer is running."""


class IndexRangeError(ExecutionError):
    """An element of an index tensor is out of range."""


class DeviceError(WebpteError):
    """The GPU failed, or is not reachable."""


class NoWebGPUError(DeviceError):
    """This browser or interpreter offers no WebGPU adapter."""


class DeviceLostError(DeviceError):
    """The device went away; `Program.recover` rebuilds the program on a new device."""


class FaultyDeviceError(DeviceError):
    """The GPU computes wrong results: `faults` has the computed values, by the name of the test."""

    def __init__(self, message: str, faults: Mapping[str, str]) -> None:
        super().__init__(message)
        self.faults = dict(faults)


class OutOfMemoryError(DeviceError):
    """An allocation failed or is over a limit of the device."""


class ShaderError(DeviceError):
    """A kernel did not compile: a bug in webpte."""


class TextError(WebpteError):
    """Text and tokens do not match, or a tokenizer is missing or not valid."""


class ChatTemplateError(TextError):
    """A chat template is missing, is wrong, or refuses the messages."""


class VocabularyError(TextError):
    """The tokenizer has tokens that the model does not know."""


class PackageError(WebpteError):
    """An optional package is missing."""


class SourceError(WebpteError):
    """The file could not be fetched or read."""


class FileChangedError(SourceError):
    """The file changed on its server while it was being read; open it again."""


class DigestError(SourceError):
    """The bytes of a file do not match its manifest: the hashes `expected` and `found` differ."""

    def __init__(self, name: str, expected: str, found: str) -> None:
        super().__init__(
            f"{name}: its SHA-256 is {found}, but its manifest names {expected}; the file was "
            "damaged on its way, or replaced: load it again, or write the manifest anew"
        )
        self.expected = expected
        self.found = found


class ManifestError(SourceError):
    """A manifest is not valid."""


class RepositoryError(SourceError):
    """A repository of the Hub does not exist, or has no program that runs here."""


class RepositoryNameError(RepositoryError):
    """A name is not hf:OWNER/NAME[/PATH][@REVISION]."""


class RepositoryAccessError(RepositoryError):
    """A repository is gated or private, and nothing allows its files to be read."""


class DocumentError(SourceError):
    """A document is broken, encrypted, too large, or has no text."""


class ClosedError(WebpteError):
    """The program was closed, or the GPU tensor destroyed."""


Told = TypeVar("Told", bound=WebpteError)


def told_at(
    error: Exception,
    message: str,
    kind: type[WebpteError],
    foreign: type[WebpteError] | tuple[()] = (),
) -> Exception:
    """Return an error with a message that names a place, to raise `from` the original.

    Errors of webpte keep their class, unless they are `foreign`, too; others become `kind`. An
    error that has the message already is returned unchanged.
    """
    if not isinstance(error, WebpteError) or isinstance(error, foreign):
        return kind(message)
    return error if message == str(error) else retold(error, message)


def retold(error: Told, message: str) -> Told:
    """Return a copy of an error with another message, to raise `from` the original.

    The copy is a new object, because several tasks may await the original, each at another place.
    """
    return _restored(type(error), (message,), vars(error))


def _restored(kind: type[Told], args: tuple[Any, ...], members: Mapping[str, Any]) -> Told:
    """Make an error without its class's `__init__`, which may take more than a message."""
    error = kind.__new__(kind)
    error.__dict__.update(members)
    error.args = args
    return error
