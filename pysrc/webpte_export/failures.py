"""Explains failed exports: the line of the model, advice, and the exporter's text.

Exporters' texts are pages long and begin with internals. The user gets a sentence, the line of the
model, and a replacement; the whole text goes to OUT.export.log.
"""

from __future__ import annotations

import functools
import inspect
import linecache
import re
import sysconfig
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

from webpte_export.errors import ExportError, error_text

P = ParamSpec("P")
T = TypeVar("T")

LOG = ".export.log"
_SHOWN_LINES = 6  # lines of details in a message
_FRAME = re.compile(r'File "(?P<file>[^"\n]+)", line (?P<line>\d+)')
_OPERATOR = re.compile(r"\b(?:aten|torchvision|higher_order)(?:\.|::)(?P<name>\w+)")
_OWN = Path(__file__).resolve().parents[1]
_STANDARD = Path(sysconfig.get_paths()["stdlib"]).resolve()
_EXPORTERS = ("torch", "torchao", "torchgen", "executorch", "functorch", "sympy", "numpy")

COMPLEX = (
    "Complex numbers become pairs of real numbers, which this use of them does not allow. Compute "
    "with the real and the imaginary part as two tensors (x.real, x.imag)."
)
# Patterns in the text of an error, and advice: the first match counts.
_ADVICE: tuple[tuple[re.Pattern[str], str], ...] = (
    (re.compile(r"(?i)complex(32|64|128)|ComplexFloat|torch\.c(float|double)"), COMPLEX),
    (
        re.compile(r"\b(batched_)?nms\b"),
        "Non-maximum suppression keeps as many boxes as their values say, but outputs have fixed "
        "sizes. Export a module that ends with all boxes and scores (of torchvision's detectors "
        "model.backbone and model.head), and suppress boxes in Python.",
    ),
    (
        re.compile(r"(?i)data-dependent|GuardOnDataDependent|Could not guard|_local_scalar_dense"),
        "What is computed depends on the values of a tensor, but a program takes the same way for "
        "all values. Use torch.where for a branch, a mask for a choice of elements, and torch.cond "
        "where two parts must not both run.",
    ),
    (
        re.compile(r"(?i)aliasing during higher order op|ops do not support aliasing"),
        "A branch or a loop returns a value that it is given, or returns a value twice. Return "
        "copies instead: x.clone().",
    ),
    (
        re.compile(r"(?i)Unsupported control flow|associative_scan"),
        "ExecuTorch has no such loop. Use torch.cond, scan, map or while_loop, write a Python loop "
        "with a fixed number of rounds, or export one round and call it from Python.",
    ),
    (
        re.compile(
            r"(?i)Constraints violated|inconsistent|ConstraintViolation|specialized|"
            r"expected to be [^\n]{0,200}dynamic|Dim\.AUTO"
        ),
        "The model does not take all of the sizes that dynamic_shapes allows, or fixes a dim to "
        "the example's size. Change min and max of the Dim as suggested below, give a Dim to the "
        "other inputs of the same size, or leave that dim fixed.",
    ),
    (
        re.compile(r"(?i)not (a )?Core ATen|not in Core ATen|non-core ATen|Missing out variant"),
        "ExecuTorch does not have this operator. Write it with others: sums, matmuls, gathers and "
        "element-wise functions.",
    ),
    (
        re.compile(r"(?i)mismatched dtypes"),
        "An operator gets tensors of different element types. Convert one of them (x.float(), "
        "x.to(y.dtype)).",
    ),
    (
        re.compile(r"op\.__name__ in \(.alloc.,\)"),
        "The model takes the larger, or the smaller, of two sizes that change, for which "
        "ExecuTorch has no operator. Use sums and products of sizes, or fix these sizes.",
    ),
    (
        re.compile(r"(?i)graph_output_allocated|alloc_graph_output"),
        "ExecuTorch cannot plan the memory of an output: its size depends on values, or on sizes "
        "without an upper bound. Return a tensor of a bounded size.",
    ),
    (
        re.compile(r"(?i)Cannot create value for|Cannot determine insertion point"),
        "ExecuTorch's Vulkan partitioner cannot write this model: mostly because of tensors with 0 "
        "rows, sizes that are computed from values, or a dim that depends on another input.",
    ),
    (
        re.compile(r"(?i)bool value of Tensor|as_tensor|\.numpy\(\)|FakeTensor|\.item\(\)"),
        "The model leaves PyTorch on its way (numpy(), item(), a Python number of a tensor). Use "
        "operators of torch instead.",
    ),
)


@dataclass(frozen=True)
class Line:
    """A line of a model's code."""

    file: str
    number: int

    @property
    def place(self) -> str:
        """The file's name and the line's number."""
        return f"{Path(self.file).name}, line {self.number}"

    def __str__(self) -> str:
        code = linecache.getline(self.file, self.number).strip()
        return f"{self.place}{f': {code}' if code else ''}"


def line_of(places: Iterable[tuple[str, int]]) -> Line | None:
    """Return the innermost line of the user's code, or else of a library of models."""
    found: tuple[Line | None, Line | None] = None, None
    for file, number in places:
        users = _is_users(file)
        if users is not None:
            line = Line(file, number)
            found = (line, found[1]) if users else (found[0], line)
    return found[0] or found[1]


def _is_users(file: str) -> bool | None:
    """Return whether a file is the user's, not a library's; None: of PyTorch, Python or webpte."""
    path = Path(file)
    if file.startswith("<") or path.is_relative_to(_OWN):
        return None
    library = re.search(r"(?:site|dist)-packages/(\w+)", path.as_posix())
    if library:
        return None if library[1] in _EXPORTERS or library[1].startswith("webpte") else False
    if path.is_relative_to(_STANDARD) or re.search(r"/lib/python3\.\d+/", path.as_posix()):
        return None
    return True


def places_in(text: str) -> list[tuple[str, int]]:
    """List the places that a text names in the form of tracebacks, outermost first."""
    return [(match["file"], int(match["line"])) for match in _FRAME.finditer(text or "")]


def places_of(error: BaseException) -> list[tuple[str, int]]:
    """List the places that an error, and the errors that caused it, passed through."""
    found: list[tuple[str, int]] = []
    seen: set[int] = set()
    each: BaseException | None = error
    while each is not None and id(each) not in seen:
        seen.add(id(each))
        frames = traceback.extract_tb(each.__traceback__)
        found += [(frame.filename, frame.lineno or 0) for frame in frames]
        found += places_in(str(each))
        each = each.__cause__ or each.__context__
    return found


def line_of_operator(text: str, nodes: Iterable[Any]) -> Line | None:
    """Return the line of the first node with an operator that the text names."""
    named = set(_OPERATOR.findall(text))
    for node in nodes:
        operator = _OPERATOR.search(str(getattr(node, "target", "")))
        if operator and operator["name"] in named:
            line = line_of(places_in(node.meta.get("stack_trace") or ""))
            if line is not None:
                return line
    return None


def advice_for(text: str) -> str | None:
    """Return advice for an error of this text; None without known advice."""
    return next((do for says, do in _ADVICE if says.search(text)), None)


def failure(tool: str, what: str, error: BaseException, nodes: Iterable[Any] = ()) -> ExportError:
    """Return the error for a user.

    tool   the source of the details: ExecuTorch, torch.export, ...
    what   the failure: a sentence without its end
    nodes  nodes of the tool's graphs, whose operators the text may name
    """
    text = error_text(error, most=None)
    line = line_of(places_of(error)) or line_of_operator(text, nodes)
    do = advice_for(text) or _suggested(text)
    message = f"{what}." if do else f"{what}: {text.splitlines()[0]}"
    lines = [message, *([f"  {line}"] if line else []), *([do] if do else [])]
    if do and "Suggested fixes" in text:
        lines.append(_suggested(text) or "")
    whole = "".join(traceback.format_exception(error))
    return ExportError("\n".join(lines), tool=tool, details=text, whole=whole)


def _suggested(text: str) -> str | None:
    """Return PyTorch's own suggestions, which come last."""
    _, found, rest = text.partition("Suggested fixes:")
    return f"Suggested fixes:{rest}".rstrip() if found else None


@contextmanager
def explained(tool: str, what: str, *programs: Any) -> Iterator[None]:
    """Raise ExportError for any error; `programs` are the tool's programs."""
    try:
        yield
    except ExportError:
        raise
    except Exception as error:
        raise failure(tool, what, error, _nodes_of(programs)) from error


def _nodes_of(programs: Iterable[Any]) -> Iterator[Any]:
    """List the nodes of programs, then the nodes into which PyTorch decomposes them."""
    for program in programs:
        yield from program.graph_module.graph.nodes
    for program in programs:
        with suppress(Exception):  # the export has failed already
            yield from program.run_decompositions().graph_module.graph.nodes


def telling_failures(
    program: Callable[[Mapping[str, Any]], Path],
) -> Callable[[Callable[P, T]], Callable[P, T]]:
    """Wrap a function to raise ExportError for any error, with its details below.

    `program` takes the function's arguments by name, and returns the path of the program. The whole
    text goes to NAME.export.log next to the program; the log of an earlier export is removed.
    """

    def decorate(function: Callable[P, T]) -> Callable[P, T]:
        signature = inspect.signature(function)

        @functools.wraps(function)
        def tell(*args: P.args, **kwargs: P.kwargs) -> T:
            log = program(signature.bind(*args, **kwargs).arguments).with_suffix(LOG)
            with suppress(OSError):  # the export reports faults of the folder
                log.unlink(missing_ok=True)
            try:
                return function(*args, **kwargs)
            except ExportError as error:
                if not error.details:
                    raise
                raise ExportError(f"{error}\n{_folded(error, log)}") from error
            except Exception as error:
                told = failure("the libraries", "the export failed", error)
                raise ExportError(f"{told}\n{_folded(told, log)}") from error

        return tell

    return decorate


def _folded(told: ExportError, log: Path) -> str:
    """Return the first lines of the details, and the place of the others."""
    lines = told.details.splitlines()
    if told.details in str(told):
        lines = []
    shown = [f"    {line}" for line in lines[:_SHOWN_LINES]]
    try:
        log.parent.mkdir(parents=True, exist_ok=True)
        log.write_text(told.whole, encoding="utf-8")
    except OSError as error:
        rest = f"The rest cannot be written to {log}: {error.strerror}."
    else:
        rest = f"The whole is in {log}."
    return "\n".join([*([f"Details of {told.tool}:"] if shown else []), *shown, rest])
