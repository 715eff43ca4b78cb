"""`webpte/run` in the package for npm: its types, bundlers, and the files of compiled programs."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from webpte.compiling import runtime_files
from webpte_host.base.layout import WEB
from webpte_host.base.progress import Display
from webpte_host.setup import esbuild
from webpte_host.site import build_npm

OWN = {
    "translated",
    "fetched",
    "BYTES",
    "count",
    "unpack",
    "evaluate",
}  # of the runtime's other modules


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the package with the modules that run compiled programs."""
    made = tmp_path_factory.mktemp("package") / "run"
    shutil.copytree(WEB / "npm" / "run", made)
    for name, text in build_npm.compiled_modules().items():
        (made / name).write_text(text, "utf-8")
    return made


def exported(text: str) -> set[str]:
    found = set(re.findall(r"^export (?:async )?(?:class|function) (\w+)", text, re.MULTILINE))
    for names in re.findall(r"^export \{ (.+) \};", text, re.MULTILINE):
        found |= set(names.split(", "))
    return found


def test_types_name_what_is_exported(folder: Path) -> None:
    types = (folder / "webpte-run.d.ts").read_text("utf-8")
    assert exported(types) == exported((folder / "webpte-run.js").read_text("utf-8")) - OWN - {
        "open"
    }
    for name in ("index", "webpte-view"):
        script, types = ((folder / f"{name}.{end}").read_text("utf-8") for end in ("js", "d.ts"))
        assert exported(types) == exported(script)


def test_every_module_that_is_imported_is_there(folder: Path) -> None:
    for path in folder.glob("*.js"):
        for name in re.findall(r'(?:from |import\()"\./([^"]+)"', path.read_text("utf-8")):
            assert (folder / name).is_file(), (path.name, name)


def test_a_bundler_takes_it(folder: Path, tmp_path: Path) -> None:
    if shutil.which("npm") is None:
        pytest.skip("there is no npm, which brings esbuild")
    page = tmp_path / "page.js"
    page.write_text(
        f'import {{ open }} from "{folder.as_posix()}/index.js";\n'
        f'import "{folder.as_posix()}/webpte-view.js";\n'
        'open("model/").then((program) => program.answer(document.querySelector("img")));\n'
    )
    options = ["--bundle", "--splitting", "--format=esm", "--minify", f"--outdir={tmp_path}/out"]
    command = [str(esbuild.program(Display())), str(page), *options]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, "warning" in done.stderr) == (0, False), done.stderr
    sizes = [path.stat().st_size for path in (tmp_path / "out").iterdir()]
    assert len(sizes) >= 5, "modules that are fetched when they are needed stay separate"
    assert sum(sizes) < 110_000


def test_a_compiled_folder_says_what_it_is_for() -> None:
    files = runtime_files.runtime_files([])
    assert json.loads(files["devices.json"]) == []
    assert "Promise<Program>" in files["index.d.ts"]
