"""`serve.py build OUT --npm`: writes the package for npm, a folder for `npm publish` or `npm pack`.

package.json            with the version of webpte and of Pyodide
index.js, index.d.ts    and the other files of web/npm
run/                    the modules that run and show compiled programs
webpte.zip              the Python package, with the worker's own modules (npm/*.py)
flatbuffers.zip         a wheel that Pyodide's distribution lacks
scripts.js              the scripts of webpte as a module, for pages that forbid eval
versions.js
runtime/                packages of Pyodide, which `npx webpte copy-runtime` writes next to the
                        package
"""

from __future__ import annotations

import json
import runpy
import shutil
from pathlib import Path

from webpte_host.base.bundle import npm_bundle, visible_files
from webpte_host.base.layout import PYSRC, ROOT, WEB
from webpte_host.base.progress import Display, megabytes
from webpte_host.serving.page_facts import package_version
from webpte_host.setup.runtime import ensure_runtime, npm_version
from webpte_host.site.output_folder import OutputFolder

_NPM = WEB / "npm"
_VERSIONS = "versions.js"
_PACKAGE = OutputFolder("package", _VERSIONS, "serve.py build --npm")
_COPIED = frozenset({".js", ".mjs", ".ts", ".md"})
_TOKENIZERS = "tokenizers/tokenizers.min.cjs"
_SERVED = f"../{_TOKENIZERS}"  # relative to Pyodide's folder, as in webpte.text
_ARCHIVE = "webpte.zip"
_MODULES = "compiling/"  # of compiled programs: modules, which Python does not evaluate


def build(out: Path, display: Display | None = None) -> None:
    """Build the package under a temporary name, and rename it when complete. Raises HostError."""
    out = out.resolve()
    _PACKAGE.check(out)
    display = display or Display()
    runtime = ensure_runtime(display)
    with _PACKAGE.written(out) as package, display.stage("The package for npm") as stage:
        write_package(package, runtime)
        sizes = [path.stat().st_size for path in package.rglob("*") if path.is_file()]
        stage.outcome = f"{len(sizes)} files, {megabytes(sum(sizes))}"
    display.line(f"The package is in {out}. To publish it: npm publish {out}")


def write_package(package: Path, runtime: Path) -> None:
    """Write all files of the package."""
    for name, path in visible_files(_NPM, _COPIED).items():
        (package / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, package / name)
    (package / "package.json").write_text(_description(), encoding="utf-8")
    (package / _VERSIONS).write_text(_versions(), encoding="utf-8")
    (package / "scripts.js").write_text(_scripts(runtime), encoding="utf-8")
    for name, text in compiled_modules().items():
        (package / "run" / name).write_text(text, encoding="utf-8")
    (package / _ARCHIVE).write_bytes(npm_bundle().archive().data)
    shutil.copy(ROOT / "LICENSE", package)
    shutil.copy(runtime / "tokenizers" / "LICENSE", package / "LICENSE-tokenizers")
    _write_packages(package, runtime / "pyodide")


def _description() -> str:
    """Return package.json, with the versions."""
    known = json.loads((_NPM / "package.json").read_text(encoding="utf-8"))
    name = known.pop("name")
    described = {"name": name, "version": package_version(), **known}
    described["dependencies"] = {"pyodide": npm_version("pyodide")}
    return json.dumps(described, indent=2) + "\n"


def _versions() -> str:
    return (
        f"export const WEBPTE = {json.dumps(package_version())};\n"
        f"export const PYODIDE = {json.dumps(npm_version('pyodide'))};\n"
    )


def compiled_modules() -> dict[str, str]:
    """Return the modules that run compiled programs. The module that makes them needs no NumPy."""
    path = PYSRC / "webpte" / "compiling" / "runtime_files.py"
    return dict(runpy.run_path(str(path))["modules"]())


def _scripts(runtime: Path) -> str:
    """Return a module with the value of each script, a single expression, by its name."""
    rows = [
        f"  {json.dumps(name)}: (\n{path.read_text(encoding='utf-8').rstrip()}\n  ),\n"
        for name, path in visible_files(PYSRC / "webpte", frozenset({".js"})).items()
        if not name.startswith(_MODULES)
    ]
    tokenizers = (runtime / _TOKENIZERS).read_text(encoding="utf-8").rstrip()
    return (
        "// Made by `serve.py build --npm`: webpte's scripts, and @huggingface/tokenizers.\n"
        f"const SCRIPTS = {{\n{''.join(rows)}}};\n"
        "const commonJs = (module, exports) => {\n"
        f"{tokenizers}\n"
        "};\n"
        "const library = { exports: {} };\n"
        "commonJs(library, library.exports);\n"
        f"SCRIPTS[{json.dumps(_SERVED)}] = library.exports;\n"
        "export const find = (name) => SCRIPTS[name];\n"
    )


def _write_packages(package: Path, pyodide: Path) -> None:
    """Write the packages of Pyodide's lock file, and the lock file."""
    lock = pyodide / "pyodide-lock.json"
    (package / "runtime").mkdir()
    shutil.copy(lock, package / "runtime")
    for name, entry in json.loads(lock.read_text(encoding="utf-8"))["packages"].items():
        shutil.copy(pyodide / entry["file_name"], package / "runtime")
        if name == "flatbuffers":  # a name that servers send as an archive
            shutil.copy(pyodide / entry["file_name"], package / "flatbuffers.zip")
