"""`export`: turns a PyTorch model into a program, its suite and a report."""

from __future__ import annotations

import copy
import logging
import re
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial, reduce
from operator import or_
from pathlib import Path
from typing import Any

from webpte_export.check_export import check_on_numpy, place
from webpte_export.errors import ExportError, error_text
from webpte_export.exporter_patches import fewer_collections, patch_exporter
from webpte_export.layer_names import LayerNames, WeightChanges, described, recorded_weights
from webpte_export.manifest_writer import write_manifest
from webpte_export.quantize import QUANTIZATIONS, quantize_weights
from webpte_export.report import Report
from webpte_export.sensitivity import tolerances
from webpte_export.suite_writer import USUAL_METHOD, Call, Tolerance, write_example, write_suite

_TOLERANCE = Tolerance(1e-3, 1e-3)
_HALF_TOLERANCE = Tolerance(2e-2, 2e-2)
_NO_LIMIT = 2**30


def export(
    model: Any,
    inputs: Any,
    path: str | Path,
    *,
    dynamic_shapes: Any = None,
    quantize: str | None = None,
    half: bool = False,
    metadata: Mapping[str, Any] | None = None,
    more_inputs: Sequence[Any] = (),
    tolerance: tuple[float, float] | None = None,
    strict: bool = False,
    beside: Sequence[str] = (),
) -> Report:
    """Export `model` (a torch.nn.Module) for webpte and check the result against PyTorch.

    inputs          the arguments of `model(*inputs)`: a tensor, or a tuple of tensors (or nested)
    path            writes PATH.pte, PATH.manifest.json (for `webpte.load`), PATH.check.npz (an
                    example for `Program.check`, if it is small), PATH.suite (a folder for
                    `serve.py verify`) and PATH.report.json; PATH may end in .pte
    dynamic_shapes  as for torch.export
    quantize        None, "4w", "8w" or "8da4w": see `webpte_export.quantize`. PyTorch's results in
                    the suite are those of the quantized model
    half            weights and values on the GPU are f16; inputs and outputs keep their types
    metadata        name -> int, float, bool or list of ints: methods of the program that return it
    more_inputs     further calls for the suite, in order, such as other sizes; a model that keeps
                    state in buffers sees them one after the other
    tolerance       (atol, rtol) of the suite; by default 1e-3 each, 2e-2 with `half`; with 8da4w
                    more, if PyTorch's own results move more by rounding
    strict          as for torch.export: finds more faults of models, and fails on more models
    beside          names of files in the program's folder that its manifest lists, too

    Raises ExportError with what to change. A program that differs from PyTorch raises nothing: the
    report says so (`passed`, `problem`).
    """
    program = program_path(path)
    _check_arguments(model, quantize, tolerance)
    import torch

    calls = [_as_inputs(given) for given in (inputs, *more_inputs)]
    clock = Clock()
    from webpte_export.experts import has_experts, replace_experts

    replaced = has_experts(model)
    module = copy.deepcopy(model).eval() if quantize or replaced else model.eval()
    if replaced:
        replace_experts(module)
    if quantize:
        with torch.no_grad(), quiet_logs():
            count = quantize_weights(module, quantize)
        if not count:
            raise ExportError(
                f"quantize={quantize!r} quantizes linear layers, but {type(model).__name__} has "
                "none that fits (widths must be multiples of 32, for 8w of 4); omit it."
            )
    own = Tolerance(*tolerance) if tolerance else None
    return export_methods(
        {USUAL_METHOD: PreparedMethod(module, calls, dynamic_shapes, tolerance=own)},
        program,
        metadata=metadata,
        tolerance=_HALF_TOLERANCE if half else _TOLERANCE,
        quantize=quantize,
        half=half,
        strict=strict,
        clock=clock,
        beside=beside,
    )


@dataclass(frozen=True)
class PreparedMethod:
    """A method to export: its module, already quantized, and calls of it, in order.

    `rewrite` changes the graph module between PyTorch's export and ExecuTorch's; `tolerance` is
    the method's own in the suite.
    """

    module: Any
    calls: Sequence[tuple[Any, ...]]
    dynamic_shapes: Any = None
    rewrite: Callable[[Any], Any] | None = None
    tolerance: Tolerance | None = None


def export_prepared(
    module: Any,
    calls: Sequence[tuple[Any, ...]],
    program: Path,
    *,
    dynamic_shapes: Any,
    rewrite: Callable[[Any], Any] | None = None,
    before: Mapping[str, PreparedMethod] | None = None,
    **options: Any,
) -> Report:
    """Export the method `forward`, after those of `before`, if there are any.

    The other options are those of `export_methods`.
    """
    method = PreparedMethod(module, calls, dynamic_shapes, rewrite)
    return export_methods({**(before or {}), USUAL_METHOD: method}, program, **options)


def export_methods(
    methods: Mapping[str, PreparedMethod],
    program: Path,
    *,
    metadata: Mapping[str, Any] | None,
    tolerance: Tolerance,
    quantize: str | None,
    half: bool,
    strict: bool,
    clock: Clock,
    extra: Mapping[str, Any] | None = None,
    beside: Sequence[str] = (),
    names: LayerNames | None = None,
) -> Report:
    """Export methods as one program; `quantize` says how they were quantized.

    `beside` names files in the same folder that the manifest lists, too. `names` gives linear
    layers of the last method the names that LoRAs know them by.
    """
    import torch

    patch_exporter()
    with torch.no_grad(), fewer_collections(), quiet_logs() as reasons:
        exported: dict[str, Any] = {}
        for name, method in methods.items():
            exported[name], changes = _exported(method, strict)
        clock.lap("torch.export")
        naming = None if names is None else partial(described, names=names, changes=changes)
        data = _lower(exported, half, metadata, naming)
        clock.lap("lowering")
        results = {name: _eager(method.module, method.calls) for name, method in methods.items()}
        allowed = tolerances(methods, results, tolerance, quantize, _eager)
    _write_whole(program, data)
    write_manifest(program, beside)
    suite = program.with_suffix(".suite")
    entries = write_suite(suite, program, program.stem, results, tolerance, allowed)
    if USUAL_METHOD in results:
        (example, *_), allows = results[USUAL_METHOD], allowed[USUAL_METHOD]
        write_example(program.with_suffix(".check.npz"), example, allows)
    clock.lap("PyTorch's results")
    verdict = reduce(or_, (check_on_numpy(suite, entry) for entry in entries))
    why = {op: tuple(sorted(found)) for op, found in reasons.items()}
    placed = reduce(or_, (place(suite, entry, why) for entry in entries))
    clock.lap("check on NumPy")
    report = Report(
        name=program.stem,
        program=program,
        suite=suite,
        program_bytes=program.stat().st_size,
        constant_bytes=placed.constant_bytes,
        seconds=clock.laps,
        quantize=quantize,
        half=half,
        delegates=placed.delegates,
        gpu_ops=placed.gpu_ops,
        host_ops=placed.host_ops,
        submissions=placed.submissions,
        passed=verdict.passed and placed.problem is None,
        max_abs=verdict.max_abs,
        max_rel=verdict.max_rel,
        problem=verdict.problem or placed.problem,
        extra=extra or {},
    )
    report.write()
    return report


def _exported(method: PreparedMethod, strict: bool) -> tuple[Any, WeightChanges]:
    """Return a method as PyTorch exports it, rewritten if it is to be."""
    given = method.calls[0], method.dynamic_shapes, strict
    exported, changes = _torch_export(method.module, *given), WeightChanges()
    if method.rewrite is not None:
        graph = method.rewrite(exported.run_decompositions({}).module())
        changes = WeightChanges.of(graph)
        exported = _torch_export(graph, *given)
    return exported, changes


def _write_whole(path: Path, data: bytes) -> None:
    """Write a file under a temporary name; an earlier one stays until it is complete."""
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_suffix(".pte.part")
    try:
        draft.write_bytes(data)
        draft.replace(path)
    except OSError as error:
        draft.unlink(missing_ok=True)
        raise ExportError(f"{path} cannot be written: {error.strerror}.") from error


class Clock:
    """A stopwatch: seconds per stage."""

    def __init__(self) -> None:
        self._last = time.perf_counter()
        self.laps: dict[str, float] = {}

    def lap(self, stage: str) -> None:
        now = time.perf_counter()
        self.laps[stage] = round(now - self._last, 3)
        self._last = now


def program_path(path: str | Path) -> Path:
    path = Path(path)
    return path if path.suffix == ".pte" else path.with_name(f"{path.name}.pte")


def _check_arguments(
    model: Any, quantize: str | None, tolerance: tuple[float, float] | None
) -> None:
    if quantize is not None and quantize not in QUANTIZATIONS:
        known = ", ".join(QUANTIZATIONS)
        raise ExportError(f"quantize={quantize!r} is not known; there are {known}, or None.")
    if tolerance is not None and len(tolerance) != 2:
        raise ExportError(f"tolerance must be (atol, rtol), not {tolerance!r}.")
    if not callable(getattr(model, "eval", None)):
        raise ExportError(
            f"the model must be a torch.nn.Module, not {type(model).__name__}; "
            "wrap a function in a module with a forward()."
        )


def _as_inputs(given: Any) -> tuple[Any, ...]:
    import torch
    from torch.utils._pytree import tree_leaves

    inputs = (given,) if isinstance(given, torch.Tensor) else given
    if not isinstance(inputs, tuple):
        raise ExportError(f"inputs must be a tensor or a tuple, not {type(given).__name__}.")
    for leaf in tree_leaves(inputs):
        if not isinstance(leaf, torch.Tensor):
            raise ExportError(
                f"inputs must be tensors, but one is {leaf!r}. Put constants into the model, and "
                "pass variable values as tensors."
            )
    return inputs


def _distinct(inputs: tuple[Any, ...]) -> tuple[Any, ...]:
    """Copy tensors that are given more than once: torch.export takes them for one input."""
    import torch
    from torch.utils._pytree import tree_map

    seen: set[int] = set()

    def own(leaf: Any) -> Any:
        if not isinstance(leaf, torch.Tensor) or id(leaf) not in seen:
            seen.add(id(leaf))
            return leaf
        return leaf.clone()

    found: tuple[Any, ...] = tree_map(own, inputs)
    return found


def _torch_export(module: Any, inputs: tuple[Any, ...], dynamic_shapes: Any, strict: bool) -> Any:
    import torch

    from webpte_export.experts import SmallTopK

    given = _distinct(inputs)
    try:
        with nullcontext() if strict else SmallTopK():
            return torch.export.export(module, given, dynamic_shapes=dynamic_shapes, strict=strict)
    except Exception as error:
        raise ExportError(
            f"torch.export cannot export {type(module).__name__}: {error_text(error)}"
        ) from error


def _lower(
    exported: Mapping[str, Any],
    half: bool,
    metadata: Mapping[str, Any] | None,
    naming: Callable[[Mapping[str, str]], dict[str, str]] | None,
) -> bytes:
    from executorch.backends.vulkan.partitioner.vulkan_partitioner import VulkanPartitioner
    from executorch.exir import to_edge_transform_and_lower

    # WebGPU's buffers do not have the limits of Vulkan's images.
    options: dict[str, Any] = {"texture_limits": (_NO_LIMIT,) * 3}
    if half:
        options["force_fp16"] = True
    # Otherwise a mutated buffer is an extra output, which the host copies back after each call.
    in_place = options | {"alias_buffer_mutations": True}
    try:
        with recorded_weights() as weights:
            lowered = to_edge_transform_and_lower(
                dict(exported),
                partitioner={
                    name: [
                        VulkanPartitioner(
                            in_place if method.graph_signature.buffers_to_mutate else options
                        )
                    ]
                    for name, method in exported.items()
                },
                constant_methods=dict(metadata) if metadata else None,
            )
        if naming is not None:
            # The hashes are not known before.
            lowered._config_methods = {**(lowered._config_methods or {}), **naming(weights)}
        data: bytes = lowered.to_executorch().buffer
    except Exception as error:
        raise ExportError(f"ExecuTorch cannot lower the model: {error_text(error)}") from error
    return data


def _eager(module: Any, calls: Sequence[tuple[Any, ...]]) -> list[Call]:
    """Compute PyTorch's results with a copy, so that state of these calls is not exported."""
    from torch.utils._pytree import tree_leaves

    fresh = copy.deepcopy(module)
    results = []
    for inputs in calls:
        outputs = fresh(*copy.deepcopy(inputs))
        arrays = tuple(_array(leaf) for leaf in tree_leaves(outputs) if leaf is not None)
        results.append(Call(tuple(_array(leaf) for leaf in tree_leaves(inputs)), arrays))
    return results


def _array(value: Any) -> Any:
    import torch

    tensor = torch.as_tensor(value).detach().clone().contiguous()
    if tensor.dtype == torch.bfloat16:
        raise ExportError(
            "an input or output is bfloat16, which WebGPU does not have; call model.float()."
        )
    return tensor.numpy()


@contextmanager
def quiet_logs() -> Iterator[dict[str, set[str]]]:
    """The partitioner's reasons for operators that it rejects, collected from its log."""
    found: dict[str, set[str]] = defaultdict(set)

    class Listener(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            _, _, why = record.getMessage().partition("[Vulkan Partitioner] Due to [")
            reason, _, call = why.rpartition("], skipping ")
            if match := _OVERLOAD.search(call):
                found[match["op"]].add(reason)

    root, listener = logging.getLogger(), Listener(logging.INFO)
    level, others = root.level, root.handlers[:]
    root.addHandler(listener)
    root.setLevel(logging.INFO)
    for handler in others:  # no other output of the log is wanted
        root.removeHandler(handler)
    try:
        yield found
    finally:
        root.removeHandler(listener)
        root.setLevel(level)
        for handler in others:
            root.addHandler(handler)


_OVERLOAD = re.compile(r"\b(?P<op>\w+\.\w+)\.\w+")
