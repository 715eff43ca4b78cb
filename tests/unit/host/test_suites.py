"""Suites of `serve.py verify` that are zips: unpacked files, and refused zips."""

from __future__ import annotations

import json
import stat
import zipfile
from pathlib import Path

import pytest

from support.write import pack_suite
from webpte_host.base.errors import HostError
from webpte_host.commands import suites, verify
from webpte_host.setup import environment


def zipped(path: Path, *files: zipfile.ZipInfo | str) -> Path:
    with zipfile.ZipFile(path, "w") as archive:
        for file in files:
            archive.writestr(file, json.dumps([{"op": "add"}]))
    return path


def link(name: str) -> zipfile.ZipInfo:
    info = zipfile.ZipInfo(name)
    info.external_attr = (stat.S_IFLNK | 0o777) << 16
    return info


@pytest.mark.parametrize("what", ["a zip", "a folder"])
def test_zips_of_suites_are_verified(
    what: str,
    root: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(environment, "inside", lambda: True)
    with pack_suite.unpacked(root / "tests" / "suites" / "ops.zip") as suite:
        entries = [one for one in suites.read_manifest(suite) if isinstance(one, dict)]
        for name, entry in (("first.zip", entries[0]), ("second.zip", entries[1])):
            pack_suite.write_zip(tmp_path / name, suite, [entry])
    folder = tmp_path / "first.zip" if what == "a zip" else tmp_path
    assert verify.main([str(folder), "--device", "numpy"]) == 0
    assert f"{1 if what == 'a zip' else 2} passed, 0 failed" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("../outside.bin", "is not a file inside of the archive"),
        ("/outside.bin", "is not a file inside of the archive"),
        ("C:/outside.bin", "is not a file inside of the archive"),
        ("a\\b.bin", "is not a file inside of the archive"),
        (link("link.bin"), "is not a file inside of the archive"),
        ("MANIFEST.json", "two files of the same name"),
        (zipfile.ZipInfo(""), "a file without a name"),
    ],
)
def test_archives_that_are_not_unpacked(
    name: zipfile.ZipInfo | str, message: str, tmp_path: Path
) -> None:
    archive = zipped(tmp_path / "suite.zip", "manifest.json", name)
    with pytest.raises(HostError, match=message):
        suites.check_suite(archive)
    with pytest.raises(HostError, match=message), suites.opened_suite(archive):
        pass
    assert list(tmp_path.iterdir()) == [archive]


def test_an_archive_without_a_manifest(tmp_path: Path) -> None:
    zipped(tmp_path / "other.zip", "readme.txt")
    with pytest.raises(HostError, match=r"other\.zip has no manifest\.json"):
        suites.check_suite(tmp_path)


def test_limits_of_what_is_unpacked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    archive = zipped(tmp_path / "suite.zip", "manifest.json", "a.bin")
    suites.check_suite(archive)
    for name, value in (("MOST_FILES", 1), ("MOST_BYTES", 20)):
        with monkeypatch.context() as patched:
            patched.setattr(suites, name, value)
            with pytest.raises(HostError, match="has 2 files of 30 bytes; at most"):
                suites.check_suite(archive)


def test_a_damaged_archive(tmp_path: Path) -> None:
    archive = zipped(tmp_path / "suite.zip", "manifest.json")
    data = bytearray(archive.read_bytes())
    data[data.index(b"add")] ^= 1
    archive.write_bytes(data)
    with (
        pytest.raises(HostError, match="cannot be unpacked: Bad CRC"),
        suites.opened_suite(archive),
    ):
        pass


def test_names_of_files_are_those_in_the_folder_of_the_archive() -> None:
    entry = {"op": "pte", "pte": "a.pte", "inputs": [{"path": "x.bin", "shape": [1]}]}
    assert suites._inside("ops", entry) == {
        "op": "pte",
        "pte": "ops/a.pte",
        "inputs": [{"path": "ops/x.bin", "shape": [1]}],
    }
