"""The set-up of the browser runtime, with fakes of npm and pip, without a network."""

from __future__ import annotations

import hashlib
import io
import json
import shutil
import sys
import tarfile
import textwrap
import threading
import zipfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from webpte_host.base import process
from webpte_host.base.errors import HostError
from webpte_host.base.progress import Display
from webpte_host.setup import runtime, sources

Files = dict[str, bytes]

# Copies the prepared files of the requested package, or fails on request.
FAKE_TOOL = """
import pathlib, shutil, sys
registry = pathlib.Path({registry!r})
with (registry / "calls.txt").open("a") as calls:
    calls.write(" ".join(sys.argv[1:]) + "\\n")
for path in registry.iterdir():
    package = path.name.partition("@")[0]
    if any(word.split("=")[0].split("@")[0] == package for word in sys.argv[1:]):
        shutil.copy(path, path.name.partition("@")[2])
        sys.exit(0)
print("getaddrinfo ENOTFOUND registry")
sys.exit(7)
"""


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def tarball(files: Files) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as tar:
        for name, data in files.items():
            info = tarfile.TarInfo(f"package/{name}")
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
    return buffer.getvalue()


def wheel(files: Files) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, data in files.items():
            archive.writestr(name, data)
    return buffer.getvalue()


@dataclass
class World:
    """A registry on disk, a lock that pins its packages, and a folder for the runtime."""

    folder: Path
    numpy: bytes = b"numpy for wasm"
    flat: bytes = field(default_factory=lambda: wheel({"flatbuffers/__init__.py": b""}))

    def __post_init__(self) -> None:
        self.registry = self.folder / "registry"
        self.registry.mkdir(parents=True)
        numpy = {"name": "numpy", "file_name": "numpy.whl", "sha256": sha256(self.numpy)}
        other = {"name": "other", "file_name": "other.whl", "sha256": sha256(b"other")}
        self.pyodide = {
            "pyodide-lock.json": json.dumps(
                {"info": {"python": "3.14"}, "packages": {"numpy": numpy, "other": other}}
            ).encode(),
            "pyodide.mjs": b"let c=`https://cdn.invalid/v${U}/full/`",
        }
        self.publish("pyodide@pyodide-1.0.tgz", tarball(self.pyodide))
        self.publish("carrier@carrier-2.0-py3-none-any.whl", wheel({"in/numpy.whl": self.numpy}))
        self.publish("flatbuffers@flatbuffers-3.0-py3-none-any.whl", self.flat)
        tool = self.folder / "tool.py"
        tool.write_text(textwrap.dedent(FAKE_TOOL).format(registry=str(self.registry)))
        self.tool = [sys.executable, str(tool)]

    def publish(self, name: str, data: bytes) -> None:
        (self.registry / name).write_bytes(data)

    def withdraw(self, package: str) -> None:
        for path in self.registry.glob(f"{package}@*"):
            path.unlink()

    def lock(self) -> dict[str, Any]:
        pinned = {name: sha256(data) for name, data in self.pyodide.items()}
        npm = {"name": "pyodide", "version": "1.0", "into": "pyodide", "files": pinned}
        carrier = {"name": "carrier", "version": "2.0", "folder": "in/", "bytes": 100}
        flat = {"name": "flatbuffers", "version": "3.0", "sha256": sha256(self.flat)}
        return {
            "npm": [npm],
            "pyodide_packages": {
                "names": ["numpy"],
                "carrier": {**carrier, "python_version": "3.11"},
            },
            "pypi": [{**flat, "file": "flatbuffers-3.0-py3-none-any.whl"}],
        }

    @property
    def state(self) -> Path:
        return self.folder / "state"

    @property
    def runtime(self) -> Path:
        return self.state / "runtime"

    def calls(self) -> list[str]:
        path = self.registry / "calls.txt"
        return path.read_text().splitlines() if path.exists() else []

    def ensure(self, **changes: Any) -> str:
        """Set up the runtime, and return the output."""
        lock_path = self.folder / "lock.json"
        lock_path.write_text(json.dumps({**self.lock(), **changes}))
        shown = io.StringIO()
        runtime.ensure_runtime(Display(shown), self.runtime, lock_path)
        return shown.getvalue()

    def left_over(self) -> list[str]:
        return sorted(path.name for path in self.state.iterdir()) if self.state.exists() else []


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    world = World(tmp_path / "world")
    monkeypatch.setattr(sources, "npm_command", lambda: world.tool)
    monkeypatch.setattr(sources, "pip_command", lambda: world.tool)
    monkeypatch.setattr(sources, "cdn_files", lambda base, names, stage: None)
    return world


def test_sets_up_everything(world: World) -> None:
    world.ensure()
    assert world.left_over() == ["runtime"]
    folder = world.runtime / "pyodide"
    assert (folder / "numpy.whl").read_bytes() == world.numpy
    assert (folder / "flatbuffers-3.0-py3-none-any.whl").read_bytes() == world.flat
    lock = json.loads((folder / "pyodide-lock.json").read_text())
    assert lock["info"] == {"python": "3.14"}
    assert sorted(lock["packages"]) == ["flatbuffers", "numpy"]
    assert lock["packages"]["flatbuffers"]["file_name"] == "flatbuffers-3.0-py3-none-any.whl"


def test_a_compiled_package_leaves_its_compiled_modules_behind(world: World) -> None:
    """The lock keeps only those dependencies of a package that are in it."""
    files = {"marks/__init__.py": b"", "marks/fast.so": b"\x7fELF", "marks/fast.c": b"int f;"}
    marks = wheel(files)
    world.publish("marks@marks-1.0-cp314-cp314-linux.whl", marks)
    entry: dict[str, Any] = {
        "name": "marks",
        "version": "1.0",
        "file": "marks-1.0-py3-none-any.whl",
    }
    made_for = {"python_version": "3.14", "platform": "linux"}
    entry |= {"sha256": sha256(marks), "depends": ["numpy", "elsewhere"]}
    world.ensure(pypi=[*world.lock()["pypi"], {**entry, "compiled_for": made_for}])
    (call,) = (call for call in world.calls() if "marks" in call)
    assert "--python-version=3.14 --platform=linux" in call
    kept = (world.runtime / "pyodide" / "marks-1.0-py3-none-any.whl").read_bytes()
    with zipfile.ZipFile(io.BytesIO(kept)) as archive:
        assert archive.namelist() == ["marks/__init__.py"]
    packages = json.loads((world.runtime / "pyodide/pyodide-lock.json").read_text())["packages"]
    assert packages["marks"]["sha256"] == sha256(kept)
    assert packages["marks"]["depends"] == ["numpy"]


def test_a_second_run_fetches_and_prints_nothing(world: World) -> None:
    world.ensure()
    before = world.calls()
    assert world.ensure() == ""
    assert world.calls() == before


@pytest.mark.parametrize("damage", ["lock changed", "file gone", "file cut", "stamp gone"])
def test_outdated_or_damaged_runtime_is_replaced(world: World, damage: str) -> None:
    world.ensure()
    changes: dict[str, Any] = {}
    if damage == "lock changed":
        changes["comment"] = "another lock"
        (world.runtime / "old-file").write_text("of the lock before")
    elif damage == "file gone":
        (world.runtime / "pyodide" / "numpy.whl").unlink()
    elif damage == "file cut":
        (world.runtime / "pyodide" / "numpy.whl").write_bytes(b"num")
    else:
        (world.runtime / "stamp.json").unlink()
    assert "Setting up" in world.ensure(**changes)
    assert world.left_over() == ["runtime"]
    assert not (world.runtime / "old-file").exists()
    assert (world.runtime / "pyodide" / "numpy.whl").read_bytes() == world.numpy


def test_cdn_is_preferred(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def cdn_files(base: str, names: list[str], _stage: object) -> Files:
        asked.append((base, names))
        return {"numpy.whl": world.numpy}

    monkeypatch.setattr(sources, "cdn_files", cdn_files)
    world.ensure()
    assert asked == [("https://cdn.invalid/v1.0/full/", ["numpy.whl"])]
    assert not any("carrier" in call for call in world.calls())


def test_wrong_files_from_cdn_fall_through(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sources, "cdn_files", lambda *_: {"numpy.whl": b"<html>log in</html>"})
    assert "not the pinned files" in world.ensure()
    assert (world.runtime / "pyodide" / "numpy.whl").read_bytes() == world.numpy


@pytest.mark.parametrize(
    ("package", "name", "data", "message"),
    [
        ("pyodide", "pyodide-1.0.tgz", b"not a tarball", r"pyodide-1.0.tgz .* cannot be unpacked"),
        ("pyodide", "pyodide-1.0.tgz", tarball({"pyodide.mjs": b""}), "no file package/pyodide-lo"),
        ("carrier", "carrier-2.0.whl", b"not a wheel", r"carrier-2.0.whl cannot be unpacked"),
        ("carrier", "carrier-2.0.whl", wheel({"a": b""}), r"carrier 2.0 .* has no numpy.whl"),
        ("carrier", "carrier-2.0.whl", wheel({"in/numpy.whl": b"bad"}), "pinned SHA-256"),
        ("flatbuffers", "flatbuffers-3.0.whl", b"bad", "pinned SHA-256"),
    ],
    # Without ids, the bytes of archives would be part of the tests' names: they contain times,
    # which differ between the processes of a run.
    ids=["no tarball", "no file", "no wheel", "no wheel inside", "other wheel", "other package"],
)
def test_wrong_content_is_refused(
    world: World, package: str, name: str, data: bytes, message: str
) -> None:
    world.withdraw(package)
    world.publish(f"{package}@{name}", data)
    with pytest.raises(HostError, match=message):
        world.ensure()
    assert world.left_over() == []


def test_changed_file_in_npm_package_is_refused(world: World) -> None:
    changed = tarball({**world.pyodide, "pyodide.mjs": b"evil()"})
    world.publish("pyodide@pyodide-1.0.tgz", changed)
    with pytest.raises(HostError, match=r"pyodide.mjs of pyodide 1.0 from npm does not have"):
        world.ensure()
    assert world.left_over() == []


@pytest.mark.parametrize("package", ["pyodide", "carrier", "flatbuffers"])
def test_no_network(world: World, package: str) -> None:
    world.withdraw(package)
    with pytest.raises(HostError, match=r"(?s)failed with exit code 7.*ENOTFOUND.*Check the netw"):
        world.ensure()
    assert world.left_over() == []


def test_failure_keeps_the_runtime_that_was_there(world: World) -> None:
    world.ensure()
    world.withdraw("flatbuffers")
    with pytest.raises(HostError):
        world.ensure(comment="another lock")
    assert world.left_over() == ["runtime"]
    assert (world.runtime / "pyodide" / "numpy.whl").exists()


def test_interrupt_leaves_nothing(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(sources, "zip_members", interrupt)
    with pytest.raises(KeyboardInterrupt):
        world.ensure()
    assert world.left_over() == []


def test_folder_that_cannot_be_written(world: World) -> None:
    world.state.write_text("a file where the folder should be")
    with pytest.raises(HostError, match="could not be written to"):
        world.ensure()


def test_full_disk(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(runtime, "_write", full)
    with pytest.raises(HostError, match=r"(?s)No space left on device.*free on its disk"):
        world.ensure()
    assert world.left_over() == []


def test_missing_npm_is_explained(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda *_, **__: None)
    with pytest.raises(HostError, match=r"npm was not found.*\n.*Node\.js"):
        process.npm_command()


def test_missing_pip_is_explained(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    monkeypatch.setattr(sys, "prefix", sys.base_prefix)
    with pytest.raises(HostError, match="pip was not found"):
        process.pip_command()


def test_unreachable_cdn_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise OSError("no route")

    monkeypatch.setattr("urllib.request.urlopen", refuse)
    with Display(io.StringIO()).stage("cdn") as stage:
        assert sources.cdn_files("https://cdn.invalid/", ["a.whl"], stage) is None


def test_silent_cdn_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    released = threading.Event()

    def hang(*_: object, **__: object) -> None:
        released.wait(30)
        raise OSError("too late")

    monkeypatch.setattr("urllib.request.urlopen", hang)
    monkeypatch.setattr(sources, "CDN_SILENCE_SECONDS", 0.05)
    with Display(io.StringIO()).stage("cdn") as stage:
        assert sources.cdn_files("https://cdn.invalid/", ["a.whl"], stage) is None
    released.set()


def test_cdn_base_of_unknown_loader_is_none() -> None:
    assert sources.cdn_base("export const nothing = 1", "1.0") is None


def test_real_lock_is_complete() -> None:
    lock = json.loads(runtime.LOCK.read_text())
    hashes = [sha for package in lock["npm"] for sha in package["files"].values()]
    hashes += [package["sha256"] for package in lock["pypi"]]
    assert all(len(sha) == 64 and int(sha, 16) for sha in hashes)
    assert lock["npm"][0]["name"] == "pyodide"
    assert {"numpy"} <= set(lock["pyodide_packages"]["names"])
