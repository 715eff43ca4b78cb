"""The package for npm: that its parts fit together, and say what Python says."""

from __future__ import annotations

import inspect
import json
import re
import subprocess
from pathlib import Path

import pytest

import webpte
from webpte import errors
from webpte.llm.text.tokenizer_json import JAVASCRIPT
from webpte_host.base.errors import HostError
from webpte_host.base.layout import WEB
from webpte_host.setup.precompile import find_node
from webpte_host.setup.runtime import npm_version
from webpte_host.site import build_npm
from webpte_serve.openai import RequestError

NPM = WEB / "npm"
OF_JAVASCRIPT = {"StartError": "WebpteError"}
LOCAL = re.compile(r'(?:from|import) "(\.\.?/[^"]+)"|new URL\("(\./[^"]+)", import\.meta\.url\)')


@pytest.fixture
def runtime(tmp_path: Path) -> Path:
    """A runtime with as much as the package takes of it."""
    folder = tmp_path / "runtime"
    for name, text in {
        "tokenizers/tokenizers.min.cjs": "exports.Tokenizer = class {};",
        "tokenizers/LICENSE": "Apache",
        "pyodide/flatbuffers.whl": "wheel",
        "pyodide/pyodide-lock.json": json.dumps(
            {"packages": {"flatbuffers": {"file_name": "flatbuffers.whl"}}}
        ),
    }.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder


@pytest.fixture
def package(tmp_path: Path, runtime: Path) -> Path:
    build_npm.write_package(tmp_path / "package", runtime)
    return tmp_path / "package"


def test_everything_that_is_named_is_there(package: Path) -> None:
    described = json.loads((package / "package.json").read_text())
    assert described["version"] == webpte.__version__
    assert described["dependencies"].keys() == {"pyodide"}
    targets = {"./LICENSE", "./README.md", *described["bin"].values()}
    for target in described["exports"].values():
        targets |= set(target.values()) if isinstance(target, dict) else {target}
    named = {package / target for target in targets}
    for path in package.rglob("*.*s"):
        text = path.read_text(encoding="utf-8")
        named |= {path.parent / (one or other) for one, other in LOCAL.findall(text)}
    assert not [path for path in named if not path.is_file()]


def test_the_tokenizers_are_registered_by_the_name_that_python_asks_for(package: Path) -> None:
    assert f"SCRIPTS[{json.dumps(JAVASCRIPT.served)}]" in (package / "scripts.js").read_text()


def test_classes_of_errors_are_those_of_python() -> None:
    classes = {
        name: kind.__bases__[0].__name__
        for name, kind in vars(errors).items()
        if inspect.isclass(kind) and issubclass(kind, errors.WebpteError)
    }
    classes |= {"RequestError": RequestError.__bases__[0].__name__} | OF_JAVASCRIPT
    del classes["WebpteError"]
    script, types = ((NPM / f"errors.{end}").read_text(encoding="utf-8") for end in ("js", "d.ts"))
    defined = re.findall(r'export const (\w+) = define\("(\w+)", (\w+)', script)
    assert all(name == text for name, text, _ in defined)
    assert {name: parent for name, _, parent in defined} == classes
    declared = dict(re.findall(r"export class (\w+) extends (\w+)", types))
    assert declared == {**classes, "WebpteError": "Error"}


def test_types_name_what_is_exported() -> None:
    script, types = ((NPM / f"index.{end}").read_text(encoding="utf-8") for end in ("js", "d.ts"))
    exported = set(re.findall(r"export (?:const|function|class) (\w+)", script))
    for names in re.findall(r"export \{ (.+) \} from", script):
        exported |= {one.split(" as ")[-1] for one in names.split(", ")}
    assert set(re.findall(r"export (?:const|function|class) (\w+)", types)) == exported


def test_replaces_only_what_it_made(tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("mine")
    with pytest.raises(HostError, match="files that are not of a package"):
        build_npm.build(tmp_path)
    assert (tmp_path / "mine.txt").read_text() == "mine"


CORE = ("pyodide.mjs", "pyodide.asm.mjs", "pyodide.asm.wasm", "python_stdlib.zip")


def copy_runtime(package: Path, project: Path) -> subprocess.CompletedProcess[str]:
    """Run `npx webpte copy-runtime public` in a project that npm linked the package into."""
    node = find_node()
    assert node is not None
    linked = project / "node_modules" / "webpte"
    linked.parent.mkdir(parents=True, exist_ok=True)
    linked.symlink_to(package, target_is_directory=True)
    command = [node, str(linked / "bin" / "webpte.mjs"), "copy-runtime", "public"]
    return subprocess.run(command, cwd=project, capture_output=True, text=True, check=False)


def install_pyodide(modules: Path, version: str) -> None:
    """Write as much of the npm package of Pyodide as is copied."""
    folder = modules / "pyodide"
    folder.mkdir(parents=True)
    described = {"name": "pyodide", "version": version}
    (folder / "package.json").write_text(json.dumps(described))
    for name in CORE:
        (folder / name).write_text(version)


@pytest.mark.parametrize("owner", ["package", "project"])
def test_copies_the_runtime_of_the_package_or_of_the_project(
    package: Path, tmp_path: Path, owner: str
) -> None:
    project, needed = tmp_path / "project", npm_version("pyodide")
    install_pyodide(tmp_path / owner / "node_modules", needed)
    ended = copy_runtime(package, project)
    assert (ended.returncode, ended.stderr) == (0, "")
    made = {path.name for path in (project / "public" / "pyodide").iterdir()}
    assert made == {*CORE, "flatbuffers.whl", "pyodide-lock.json"}


@pytest.mark.parametrize("installed", [None, "0.1.0"])
def test_says_in_one_line_which_pyodide_is_missing(
    package: Path, tmp_path: Path, installed: str | None
) -> None:
    project, needed = tmp_path / "project", npm_version("pyodide")
    if installed is not None:
        install_pyodide(project / "node_modules", installed)
    ended = copy_runtime(package, project)
    (line,) = ended.stderr.splitlines()
    assert ended.returncode == 1
    assert line.startswith(f"error: the npm package pyodide {needed} is not installed")
    assert line.endswith(f"run `npm install --install-links {package}`")
    assert (installed or "not") in line
    assert not (project / "public").exists()
