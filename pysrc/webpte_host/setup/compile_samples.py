"""Compiles samples of the page, which then answer before Python is there.

    runtime/compiled/webpte-*.js    the runtime of compiled programs, and the drawing of results
    runtime/compiled/NAME/          the program of a sample, without its weights: pages take them
                                    from the sample's `.pte`
    runtime/compiled/samples.json   the hash of each program that was compiled

As in precompile.py, Pyodide's Python in Node does the work. The gallery's cards name the folders of
programs that have not changed since.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import tempfile
import zipfile
from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import Any

from webpte_host.base.bundle import package_bundle
from webpte_host.base.errors import HostError
from webpte_host.base.layout import PYSRC, WEB
from webpte_host.base.process import run_tool
from webpte_host.base.progress import Display
from webpte_host.setup.precompile import LIBRARY, find_node

COMPILED, INDEX = "compiled", "samples.json"
_KEY = "samples"  # in the stamp of a runtime: digests of the sources
_SCRIPT = Path(__file__).with_name("compile_samples.mjs")
_COMPILER = PYSRC / "webpte" / "compiling"
_LARGEST = 1 << 20  # bytes of a program: a larger one answers too late to be of use
_SHARED = ("webpte-run.js", "webpte-self-test.js", "webpte-task.js", "webpte-view.js")
_OWN = ("index.js",)


def compiled_folder(runtime: Path, program: Path) -> str:
    """Return the folder of a compiled program in a runtime; "" if other bytes were compiled."""
    try:
        known = json.loads((runtime / COMPILED / INDEX).read_bytes())
        is_same = known[program.stem] == _sha256(program.read_bytes())
    except (OSError, ValueError, KeyError, TypeError):
        return ""
    return f"{COMPILED}/{program.stem}/" if is_same else ""


def ensure_samples(
    display: Display | None, runtime: Path, stamp_path: Path, current: bool, web: Path = WEB
) -> None:
    """Compile the samples if they or the compiler have changed, or, with `current`, all of webpte.

    If compiling fails, samples wait for Python, and a later start tries again.
    """
    stamp: dict[str, Any] = json.loads(stamp_path.read_text())
    if LIBRARY not in stamp["files"]:
        return
    names = answering(web / "samples")
    archive = package_bundle().archive().data if current else b""
    before = stamp.get(_KEY, {}) if (runtime / COMPILED / INDEX).is_file() else {}
    found = {"compiler": _compiler(web / "samples", names), "package": _sha256(archive)}
    if before.get("compiler") == found["compiler"] and (not current or before == found):
        return
    archive = archive or package_bundle().archive().data
    found["package"] = _sha256(archive)
    with (display or Display()).stage("Samples, compiled") as stage:
        try:
            with tempfile.TemporaryDirectory(dir=runtime.parent) as work:
                made = _made(runtime, archive, web / "samples", names, Path(work))
                _replace(runtime, made, stamp | {_KEY: found}, stamp_path, Path(work))
            stage.outcome = ", ".join(json.loads(made[INDEX])) or "none"
        except (HostError, OSError) as error:  # a read-only checkout is served without
            why = str(error).splitlines()[-1].strip()
            stage.outcome = f"not possible here, so they wait for Python ({why})"


def answering(samples: Path) -> list[str]:
    """Return the names of samples with an input and outputs that a compiled task understands."""
    found = []
    for path in sorted(samples.glob("*.json")):
        with contextlib.suppress(OSError, ValueError, TypeError, AttributeError, KeyError):
            if _answers(json.loads(path.read_bytes()), path.with_suffix(".pte")):
                found.append(path.stem)
    return found  # the gallery tells the faults of other cards


def _answers(card: dict[str, Any], program: Path) -> bool:
    is_demo = card["view"] == "run" and card.get("group") != "test"
    is_own = card["files"]["program"] == program.name and program.stat().st_size <= _LARGEST
    is_named = all(isinstance(one.get("labels", []), list) for one in card["outputs"])
    has_picture = len(card["inputs"]) == 1 and bool(card["inputs"][0].get("layout"))
    return is_demo and is_own and is_named and has_picture


def _compiler(samples: Path, names: list[str]) -> str:
    """Return a digest of the samples, and of the sources that compile them."""
    sources = [path for path in sorted(_COMPILER.rglob("*")) if path.suffix in (".py", ".js")]
    given = [samples / f"{name}{suffix}" for name in names for suffix in (".json", ".pte")]
    return _sha256(*(path.read_bytes() for path in (Path(__file__), _SCRIPT, *sources, *given)))


def _sha256(*parts: bytes) -> str:
    digest = hashlib.sha256()
    for part in parts:
        digest.update(hashlib.sha256(part).digest())
    return digest.hexdigest()


def _made(
    runtime: Path, package: bytes, samples: Path, names: list[str], work: Path
) -> dict[str, bytes]:
    """Compile the samples; return the files below `compiled` by name."""
    node = find_node()
    if node is None:
        raise HostError("there is no node")
    (work / "webpte.zip").write_bytes(package)
    given = [runtime / "pyodide", work / "webpte.zip", samples, work / "out.zip"]
    run_tool([node, str(_SCRIPT), *map(str, given), *names], "compiling samples", cwd=work)
    made: dict[str, bytes] = {}
    with zipfile.ZipFile(work / "out.zip") as archive:
        for place in archive.namelist():
            rest = place.partition("/")[2]
            if rest in _SHARED:
                made[rest] = archive.read(place)
            elif rest in _OWN or PurePosixPath(rest).suffix in (".wgsl", ".bin", ".json"):
                made[place] = archive.read(place)
            if rest == "index.js":
                made[place] = made[place].replace(b'"./webpte-run.js"', b'"../webpte-run.js"')
    done = [name for name in names if f"{name}/index.js" in made]
    hashes = {name: _sha256((samples / f"{name}.pte").read_bytes()) for name in done}
    return made | {INDEX: json.dumps(hashes, indent=1).encode()}


def _replace(
    runtime: Path, made: Mapping[str, bytes], stamp: Mapping[str, Any], stamp_path: Path, work: Path
) -> None:
    fresh, new_stamp = work / COMPILED, work / stamp_path.name
    for name, data in made.items():
        (fresh / name).parent.mkdir(parents=True, exist_ok=True)
        (fresh / name).write_bytes(data)
    new_stamp.write_text(json.dumps(stamp, indent=1))
    if (runtime / COMPILED).exists():
        (runtime / COMPILED).rename(work / "outdated")
    fresh.rename(runtime / COMPILED)
    new_stamp.replace(stamp_path)
