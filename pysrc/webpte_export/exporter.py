"""`export`: turns a PyTorch model into a program, its suite and a report."""

from __future__ import annotations

import copy
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial, reduce
from operator import or_
from pathlib import Path
from typing import Any

from webpte_export.check_export import check_on_numpy, place
from webpte_export.errors import ExportError
from webpte_export.exporter_patches import fewer_collections, patch_exporter
from webpte_export.failures import explained, telling_failures
from webpte_export.layer_names import LayerNames, WeightChanges, described
from webpte_export.lowering import lower, quiet_logs, runnable_form, torch_export
from webpte_export.manifest_writer import write_manifest
from webpte_export.quantize import QUANTIZATIONS, quantize_weights
from webpte_export.report import Report
from webpte_export.sensitivity import tolerances
from webpte_export.suite_writer import USUAL_METHOD, Call, Tolerance, write_example, write_suite
from webpte_export.weight_readers import layers_read_elsewhere, plain_attention

_TOLERANCE = Tolerance(1e-3, 1e-3)
_HALF_TOLERANCE = Tolerance(2e-2, 2e-2)


def program_path(path: str | Path) -> Path:
    path = Path(path)
    return path if path.suffix == ".pte" else path.with_name(f"{path.name}.pte")


@telling_failures(lambda given: program_path(given["path"]))
def export(
    model: Any,
    inputs: Any,
    path: str | Path,
    *,
    kwargs: Mapping[str, Any] | None = None,
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

    inputs          the arguments of `model(*inputs)`: a tensor, a tuple, or a dict of arguments by
                    name. Numbers, texts and None are constants of the program; a number that is
                    another one in `more_inputs` becomes a tensor without dims
    kwargs          arguments by name of all calls, beside `inputs`
    path            writes PATH.pte, PATH.manifest.json (for `webpte.load`), PATH.check.npz (an
                    example for `Program.check`, if it is small), PATH.suite (a folder for
                    `serve.py verify`) and PATH.report.json; PATH may end in .pte
    dynamic_shapes  as for torch.export
    quantize        None, "4w", "8w" or "8da4w": see `webpte_export.quantize`. PyTorch's results in
                    the suite come from the quantized model
    half            weights and values on the GPU are f16; inputs and outputs keep their types
    metadata        name -> int, float, bool or list of ints: methods of the program that return it
    more_inputs     further calls for the suite, in order, such as other sizes; a model that keeps
                    state in buffers sees them in this order
    tolerance       (atol, rtol) of the suite; by default 1e-3 each, 2e-2 with `half`; with 8da4w
                    more, if PyTorch's results move more by rounding
    strict          as for torch.export: finds more faults of models, and fails on more models
    beside          names of files in the program's folder that its manifest lists, too

    Every failure raises ExportError with advice; the libraries' messages are in PATH.export.log. A
    program that differs from PyTorch raises nothing: see the report (`passed`, `problem`).
    """
    program, name = program_path(path), type(model).__name__
    _check_arguments(model, quantize, tolerance)
    import torch

    from webpte_export.rewrite.arguments import arranged

    model, calls, dynamic_shapes = arranged(model, (inputs, *more_inputs), kwargs, dynamic_shapes)
    clock = Clock()
    from webpte_export.experts import has_experts, replace_experts

    replaced = has_experts(model)
    module = copy.deepcopy(model).eval() if quantize or replaced else model.eval()
    if replaced:
        replace_experts(module)
    if quantize:
        with torch.no_grad(), quiet_logs():
            _eager(module, calls[:1])
            count = quantize_weights(
                module, quantize, apart=layers_read_elsewhere(module, calls[0])
            )
        if not count:
            raise ExportError(
                f"quantize={quantize!r} quantizes linear layers, but {name} has "
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

    `rewrite` changes the graph module between PyTorch's export and ExecuTorch's; `tolerance` is the
    method's tolerance in the suite.
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
    """Export the methods of `before`, then the method `forward`.

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
    """Export methods as a single program; `quantize` names their quantization.

    `beside` names further files in the same folder for the manifest. `names` maps linear layers of
    the last method to their names in LoRAs.
    """
    import torch

    from webpte_export.rewrite.decompositions import draws

    patch_exporter()
    with torch.no_grad(), plain_attention(), fewer_collections(), quiet_logs() as reasons:
        results = {name: _eager(method.module, method.calls) for name, method in methods.items()}
        clock.lap("PyTorch's results")
        exported: dict[str, Any] = {}
        for name, method in methods.items():
            exported[name], changes = _exported(method, strict)
        clock.lap("torch.export")
        drawn = {name for name, program in exported.items() if draws(program)}
        for name in drawn:
            results[name] = _without_chance(methods[name], results[name])
        naming = None if names is None else partial(described, names=names, changes=changes)
        data, undelegated = lower(exported, half, metadata, naming)
        clock.lap("lowering")
        allowed = tolerances(methods, results, tolerance, quantize, _eager)
    _write_whole(program, data)
    write_manifest(program, beside)
    suite = program.with_suffix(".suite")
    entries = write_suite(suite, program, program.stem, results, tolerance, allowed)
    if USUAL_METHOD in results:
        (example, *_), allows = results[USUAL_METHOD], allowed[USUAL_METHOD]
        write_example(program.with_suffix(".check.npz"), example, allows)
    verdict = reduce(or_, (check_on_numpy(suite, entry) for entry in entries))
    why = {op: tuple(sorted(found)) for op, found in reasons.items()}
    with explained("webpte", f"{program} was written, but webpte cannot run it"):
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
        extra={
            **(extra or {}),
            **({"without_delegates_because": undelegated} if undelegated else {}),
            **(
                {"not_compared": "outputs that differ between two runs of PyTorch"} if drawn else {}
            ),
        },
    )
    report.write()
    return report


def _exported(method: PreparedMethod, strict: bool) -> tuple[Any, WeightChanges]:
    """Return a method as PyTorch exports it, rewritten if requested."""
    given = method.calls[0], method.dynamic_shapes, strict
    exported, changes = torch_export(method.module, *given), WeightChanges()
    if method.rewrite is not None:
        graph = method.rewrite(exported.run_decompositions({}).module())
        changes = WeightChanges.of(graph)
        exported = torch_export(graph, *given)
    return runnable_form(exported, method.module, *given), changes


def _write_whole(path: Path, data: bytes) -> None:
    """Write a file under a temporary name; an earlier file stays until the new file is complete."""
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


def _eager(module: Any, calls: Sequence[tuple[Any, ...]]) -> list[Call]:
    """Compute PyTorch's results with a copy, so that the state of these calls is not exported.

    Results of None are kept, because a program returns None, too.
    """
    from torch.utils._pytree import tree_leaves

    fresh = copy.deepcopy(module)
    results = []
    for number, inputs in enumerate(calls):
        given = tree_leaves(inputs)
        shapes = ", ".join(
            f"{leaf.dtype} {list(leaf.shape)}" if hasattr(leaf, "shape") else repr(leaf)
            for leaf in given
        )
        place = f"more_inputs[{number - 1}]" if number else "its inputs"
        with explained("PyTorch", f"{type(module).__name__} does not take {place} ({shapes})"):
            outputs = tree_leaves(fresh(*copy.deepcopy(inputs)))
        arrays = tuple(None if leaf is None else _array(leaf) for leaf in outputs)
        if all(array is None for array in arrays):
            raise ExportError(
                f"{type(module).__name__} returns no tensor: forward must return one."
            )
        results.append(Call(tuple(_array(leaf) for leaf in given), arrays))
    return results


def _without_chance(method: PreparedMethod, results: Sequence[Call]) -> list[Call]:
    """Leave out the outputs that differ when PyTorch computes them again: they are random."""
    import numpy as np

    again = _eager(method.module, method.calls)

    def stays(a: Any, b: Any) -> bool:
        return (
            a is not None and b is not None and np.array_equal(a, b, equal_nan=a.dtype.kind == "f")
        )

    return [
        Call(
            one.inputs,
            tuple(
                a if stays(a, b) else None
                for a, b in zip(one.expected, other.expected, strict=True)
            ),
        )
        for one, other in zip(results, again, strict=True)
    ]


def _array(value: Any) -> Any:
    import torch

    from webpte_export.rewrite.complex_pairs import as_real

    tensor = as_real(torch.as_tensor(value)).detach().clone().contiguous()
    # Programs take and return bfloat16 as float32.
    return (tensor.float() if tensor.dtype == torch.bfloat16 else tensor).numpy()
