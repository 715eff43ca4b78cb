"""The process of `serve.py export`: takes a request as JSON, and writes a file with the answer.

The answer has the report's text, or an error message.
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
from webpte_export.exporter_patches import hide_broken_torchvision
from webpte_export.report import Report


def main(request: dict[str, Any], answer: Path) -> int:
    try:
        report = run(request)
    except ExportError as error:
        result: dict[str, Any] = {"error": str(error)}
    else:
        result = {"text": report.text(), "suite": str(report.suite), "passed": report.passed}
    # Renamed when complete: the waiting process reads the file as soon as it exists.
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
    chosen |= {name: request[name] for name in ("calibrate", "keep_8w") if request.get(name)}
    if request["kind"] == "llm":
        from webpte_export.llm import export_llm

        if request.get("train") is not None:
            from webpte_export.training.adapters import LoraOptions
            from webpte_export.training.prepare import lora_training

            chosen["train"] = lora_training(LoraOptions(**request["train"]))
        return export_llm(
            request["source"], request["out"], max_context=request["max_context"], **chosen
        )
    if request["kind"] == "task":
        from webpte_export.tasks import export_task

        if request["max_context"] is not None:
            chosen["max_length"] = request["max_context"]
        return export_task(request["source"], request["out"], request["task"], **chosen)
    from webpte_export.exporter import export

    hide_broken_torchvision()  # before the user's module imports it
    arguments = {**as_arguments(call(request["source"]), request["source"]), **chosen}
    return export(path=request["out"], **arguments)


def call(target: str) -> Any:
    """Import and call `module:function`; errors name the line of that module."""
    module_name, _, function_name = target.partition(":")
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name is not None and module_name.split(".")[0] == error.name.split(".")[0]:
            raise ExportError(
                f"there is no module {module_name!r} in {Path.cwd()} or in the environment."
            ) from error
        raise ExportError(
            f"{module_name} imports {error.name!r}, which the export environment does not have."
        ) from error
    except Exception as error:
        raise ExportError(f"importing {module_name} failed: {_text(error, module_name)}") from error
    function: Callable[[], Any] | None = getattr(module, function_name, None)
    if not callable(function):
        raise ExportError(f"{module_name} has no function {function_name!r}.")
    try:
        return function()
    except Exception as error:
        raise ExportError(f"{target} failed: {_text(error, module_name)}") from error


def _text(error: Exception, module_name: str) -> str:
    frames = traceback.extract_tb(error.__traceback__)
    file = module_name.rpartition(".")[2] + ".py"
    own = [frame for frame in frames if Path(frame.filename).name == file]
    where = f" ({file}, line {own[-1].lineno})" if own else ""
    return f"{type(error).__name__}: {error}{where}"


def as_arguments(made: Any, target: str) -> dict[str, Any]:
    """Convert a function's result, a tuple or a dict, to arguments of `export`."""
    names = ("model", "inputs", "dynamic_shapes")
    if isinstance(made, tuple) and len(made) in (2, 3):
        return dict(zip(names, made, strict=False))
    if isinstance(made, dict):
        known = {
            *names,
            "kwargs",
            "quantize",
            "half",
            "metadata",
            "more_inputs",
            "tolerance",
            "strict",
        }
        unknown = sorted(made.keys() - known)
        if unknown:
            raise ExportError(f"{target} returns {unknown[0]!r}, which export does not take.")
        if "model" in made and "inputs" in made:
            return made
    raise ExportError(
        f"{target} must return (model, inputs), (model, inputs, dynamic_shapes), or a dict with "
        f"model and inputs; it returned {type(made).__name__}."
    )


if __name__ == "__main__":
    sys.exit(main(json.loads(sys.argv[1]), Path(sys.argv[2])))
