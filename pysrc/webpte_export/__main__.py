"""The process behind `serve.py export`: a request as JSON in, a file with the answer out.

The answer has the report's text, or the sentence that says what is wrong.
"""

from __future__ import annotations

import importlib
import json
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

from webpte_export.errors import ExportError
from webpte_export.exporter_patches import without_broken_torchvision
from webpte_export.report import Report


def main(request: dict[str, Any], answer: Path) -> int:
    try:
        report = run(request)
    except ExportError as error:
        result: dict[str, Any] = {"error": str(error)}
    else:
        result = {"text": report.text(), "suite": str(report.suite), "passed": report.passed}
    # Whole or not at all: whoever waits takes a file for an answer.
    draft = answer.with_suffix(".draft")
    draft.write_text(json.dumps(result), encoding="utf-8")
    draft.replace(answer)
    return 0


def run(request: dict[str, Any]) -> Report:
    quantize = request["quantize"]
    chosen: dict[str, Any] = (
        {} if quantize is None else {"quantize": None if quantize == "none" else quantize}
    )
    if request["half"]:
        chosen["half"] = True
    if request["kind"] == "llm":
        from webpte_export.llm import export_llm

        return export_llm(
            request["source"], request["out"], max_context=request["max_context"], **chosen
        )
    from webpte_export.exporter import export

    without_broken_torchvision()  # before the user's module imports what imports it
    arguments = {**as_arguments(call(request["source"]), request["source"]), **chosen}
    return export(path=request["out"], **arguments)


def call(target: str) -> Any:
    """What the function gives; errors in it are told by its own lines."""
    module_name, _, function_name = target.partition(":")
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name is not None and module_name.split(".")[0] == error.name.split(".")[0]:
            raise ExportError(
                f"there is no module {module_name!r}, looked for from {Path.cwd()} on."
            ) from error
        raise ExportError(
            f"{module_name} imports {error.name!r}, which the export environment does not have."
        ) from error
    except Exception as error:
        raise ExportError(f"importing {module_name} failed: {_told(error, module_name)}") from error
    function: Callable[[], Any] | None = getattr(module, function_name, None)
    if not callable(function):
        raise ExportError(f"{module_name} has no function {function_name!r}.")
    try:
        return function()
    except Exception as error:
        raise ExportError(f"{target} failed: {_told(error, module_name)}") from error


def _told(error: Exception, module_name: str) -> str:
    frames = traceback.extract_tb(error.__traceback__)
    file = module_name.rpartition(".")[2] + ".py"
    own = [frame for frame in frames if Path(frame.filename).name == file]
    where = f" ({file}, line {own[-1].lineno})" if own else ""
    return f"{type(error).__name__}: {error}{where}"


def as_arguments(made: Any, target: str) -> dict[str, Any]:
    """(model, inputs), (model, inputs, dynamic_shapes) or a dict, as arguments of `export`."""
    names = ("model", "inputs", "dynamic_shapes")
    if isinstance(made, tuple) and len(made) in (2, 3):
        return dict(zip(names, made, strict=False))
    if isinstance(made, dict):
        known = {*names, "quantize", "half", "metadata", "more_inputs", "tolerance", "strict"}
        unknown = sorted(made.keys() - known)
        if unknown:
            raise ExportError(f"{target} gives {unknown[0]!r}, which export does not take.")
        if "model" in made and "inputs" in made:
            return made
    raise ExportError(
        f"{target} must return (model, inputs), (model, inputs, dynamic_shapes), or a dict with "
        f"model and inputs; it returned {type(made).__name__}."
    )


if __name__ == "__main__":
    sys.exit(main(json.loads(sys.argv[1]), Path(sys.argv[2])))
