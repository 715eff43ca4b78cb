"""`serve.py export`: runs an export in its environment and shows the report.

The export itself (`python -m webpte_export`) is another process with another Python. Its output, to
which PyTorch's libraries add much, is shown only if it fails.
"""

from __future__ import annotations

import argparse
import json
import re
import shlex
import tempfile
from pathlib import Path
from typing import Any
from urllib.parse import quote

from webpte_host.base.errors import HostError
from webpte_host.base.process import run_logged
from webpte_host.base.progress import Display
from webpte_host.setup.export_environment import export_python, export_variables

QUANTIZATIONS = ("none", "4w", "8w", "8da4w")
_GROUPED = ("4w", "8da4w")  # quantizations that can be calibrated
_TAIL_LINES = 15
# Options of --train by the last part of their names: fields of `LoraOptions`, and their help.
_TRAINING = {
    "rank": ("rank", "rank of the LoRA (8)"),
    "alpha": ("alpha", "its scale times its rank (16)"),
    "batch": ("batch", "lines in a step (4)"),
    "length": ("length", "tokens in a line (128)"),
}
_USAGE = """\
python3 serve.py export MODULE:FUNCTION OUT [options]
       python3 serve.py export MODEL.gguf|FOLDER OUT [--train lora] [options]
       python3 serve.py export FOLDER OUT --task NAME [options]"""
_WRITING = "text-generation"
_TALKING = (_WRITING, "image-text-to-text")  # tasks with conversations
_DESCRIPTION = """\
Exports a PyTorch model for webpte and checks the result against PyTorch. FUNCTION of MODULE, which
is imported from the current folder, returns (model, inputs), (model, inputs, dynamic_shapes), or a
dict of webpte_export.export's arguments. A GGUF file, or a folder with config.json and
*.safetensors, is a language model. Writes OUT.pte, OUT.suite (for verify) and OUT.report.json.
With --task, FOLDER is a model of Hugging Face for that task, and OUT is a folder: model.pte, with
what webpte.tasks reads beside it."""


def main(arguments: list[str]) -> int:
    request = parse(arguments)
    display = Display()
    python = export_python(display)
    with display.stage(f"Exporting {request['source']}"):
        result = run_export(python, request)
    print(result["text"])
    for line in next_steps(Path(result["suite"]), request["kind"] == "task"):
        print(line, flush=True)
    return 0 if result["passed"] else 1


def next_steps(suite: Path, is_task: bool = False) -> list[str]:
    """Return advice to check an export in a browser, and to open it on the page."""
    # The manifest names the task, for which the page has a view.
    name = f"{quote(suite.stem)}.{'manifest.json' if is_task else 'pte'}"
    folder, address = suite.parent, f"http://localhost:8000/?url=/folder/{name}"
    return [
        f"To check it on WebGPU: python3 serve.py verify {_short(suite)}",
        f"To open it: python3 serve.py --folder {_short(folder)}, then {address}",
    ]


def _short(path: Path) -> str:
    """Return a path from the current folder if it is inside, quoted for a shell."""
    here = Path.cwd()
    return shlex.quote(str(path.relative_to(here) if path.is_relative_to(here) else path))


def parse(arguments: list[str]) -> dict[str, Any]:
    """Parse the request for the other process, with the standard library only, before set-up."""
    parser = argparse.ArgumentParser(prog="serve.py export", usage=_USAGE, description=_DESCRIPTION)
    parser.add_argument("source", help="module:function, a .gguf file, or a folder")
    parser.add_argument("out", type=Path, help="path of the program, with or without .pte")
    parser.add_argument(
        "--quantize",
        choices=QUANTIZATIONS,
        help="quantize weights of linear layers (none; 8w for language models)",
    )
    parser.add_argument(
        "--calibrate",
        nargs="?",
        const=True,
        default=False,
        metavar="FILE",
        help="round a language model's 4-bit weights by a text (the built-in one without a FILE)",
    )
    parser.add_argument(
        "--keep-8w", type=_size, metavar="N", help="the N most sensitive layers get 8 bits instead"
    )
    parser.add_argument("--half", action="store_true", help="use f16 on the GPU")
    parser.add_argument(
        "--max-context", type=_count, metavar="N", help="tokens in a language model's cache (2,048)"
    )
    parser.add_argument(
        "--task", metavar="NAME", help="export for webpte.tasks, such as text-classification"
    )
    parser.add_argument(
        "--train",
        choices=("lora",),
        help="add the method `learn`, which trains a LoRA of a Llama-like language model",
    )
    for name, (_, text) in _TRAINING.items():
        parser.add_argument(f"--lora-{name}", type=_size, metavar="N", help=text)
    parser.add_argument(
        "--lora-targets", metavar="NAMES", help="layers to train, such as q_proj,v_proj (all)"
    )
    options = parser.parse_args(arguments)
    kind = _kind(options.source)
    if options.task is not None:
        if not Path(options.source).is_dir():
            raise HostError("--task takes a folder with config.json and *.safetensors.")
        if options.max_context is not None and options.task not in _TALKING:
            known = " and ".join(_TALKING)
            raise HostError(f"--max-context is for language models; of tasks, for {known}.")
        kind = "task"
    if kind == "function" and options.max_context is not None:
        raise HostError("--max-context is for language models (a .gguf file or a folder).")
    if options.train is not None and kind != "llm":
        raise HostError("--train is for language models (a .gguf file or a folder).")
    _check_calibration(options, kind)
    source = options.source if kind == "function" else str(Path(options.source).resolve())
    return {
        "kind": kind,
        "source": source,
        "out": str(options.out.resolve()),
        "quantize": options.quantize,
        "half": options.half,
        "max_context": options.max_context,
        "task": options.task,
        "train": _training(options),
        "calibrate": _absolute(options.calibrate),
        "keep_8w": options.keep_8w or 0,
    }


def _check_calibration(options: argparse.Namespace, kind: str) -> None:
    """Check --calibrate and --keep-8w before the environment is set up. Raises HostError."""
    if options.calibrate is False:
        if options.keep_8w is not None:
            raise HostError("--keep-8w needs --calibrate, which finds the most sensitive layers.")
        return
    if kind != "llm" and options.task != _WRITING:
        raise HostError(
            "--calibrate is for language models (a .gguf file or a folder); "
            f"of tasks, for {_WRITING}."
        )
    if options.quantize not in _GROUPED:
        raise HostError(f"--calibrate needs --quantize {' or '.join(_GROUPED)}.")
    if options.calibrate is not True and not Path(options.calibrate).is_file():
        raise HostError(
            f"--calibrate {options.calibrate}: there is no such text file. "
            "Without a name it uses the built-in text."
        )


def _absolute(calibrate: str | bool) -> str | bool:
    return calibrate if isinstance(calibrate, bool) else str(Path(calibrate).resolve())


def _training(options: argparse.Namespace) -> dict[str, Any] | None:
    """Return the chosen options of the training, by the names of `LoraOptions`."""
    given = {
        field: getattr(options, f"lora_{name}")
        for name, (field, _) in _TRAINING.items()
        if getattr(options, f"lora_{name}") is not None
    }
    if options.lora_targets is not None:
        given["targets"] = [name.strip() for name in options.lora_targets.split(",")]
    if given and options.train is None:
        raise HostError("--lora-... options need --train lora.")
    return None if options.train is None else given


def _count(text: str) -> int:
    count = int(text)
    if count < 2:
        raise argparse.ArgumentTypeError(f"{text} is not a number of tokens above 1")
    return count


def _size(text: str) -> int:
    size = int(text)
    if size < 1:
        raise argparse.ArgumentTypeError(f"{text} is not above 0")
    return size


def _kind(source: str) -> str:
    """Return "function" or "llm"; an existing path means "llm"."""
    path = Path(source)
    if path.exists():
        if path.is_dir() or path.suffix == ".gguf":
            return "llm"
        raise HostError(
            f"{source} is neither a .gguf file nor a folder with config.json and *.safetensors.\n"
            f"A function of a Python file is named like {path.stem}:make_model."
        )
    if re.fullmatch(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*", source):
        return "function"
    if source.endswith(".gguf") or "/" in source:
        raise HostError(f"{source}: there is no such file or folder.")
    raise HostError(
        f"{source!r} does not name a model. Give module:function, such as my_model:make, "
        "a .gguf file, or a folder with config.json and *.safetensors."
    )


def run_export(python: Path, request: dict[str, Any]) -> dict[str, Any]:
    """Run the export in its environment, from the current folder. Raises HostError."""
    with tempfile.TemporaryDirectory() as folder:
        answer, log = Path(folder, "answer.json"), Path(folder, "log")
        with log.open("w+", encoding="utf-8", errors="replace") as output:
            command = [str(python), "-W", "ignore", "-m", "webpte_export"]
            command += [json.dumps(request), str(answer)]
            here = Path.cwd()
            code = run_logged(command, output, cwd=here, env=export_variables(here))
        if not answer.exists():
            lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
            said = "\n".join(f"    {line}" for line in lines[-_TAIL_LINES:]) or "    (no output)"
            raise HostError(f"the export ended with code {code} and no result:\n{said}")
        result: dict[str, Any] = json.loads(answer.read_text(encoding="utf-8"))
    if "error" in result:
        raise HostError(result["error"])
    return result
