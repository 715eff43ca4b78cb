"""`serve.py` as a user runs it."""

from __future__ import annotations

import http.client
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from support.harness import limits
from webpte.errors import FormatError
from webpte_host import cli
from webpte_host.base.errors import HostError, PageLostError, PagePythonError
from webpte_host.commands import bench
from webpte_host.serving.server import Site
from webpte_host.setup import chromium, runtime


def serve(root: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(root / "serve.py"), *arguments]
    return subprocess.run(
        command, capture_output=True, text=True, check=False, timeout=limits.PROCESS_SECONDS
    )


def test_help_lists_the_commands(root: Path) -> None:
    done = serve(root, "--help")
    assert done.returncode == 0
    for command in ("verify", "models", "test", "setup", "--port"):
        assert command in done.stdout


def test_unknown_command(root: Path) -> None:
    done = serve(root, "fly")
    assert done.returncode == 1
    assert done.stderr.startswith("error: there is no command 'fly'")


@pytest.mark.parametrize(
    "error",
    [
        HostError("it went wrong"),
        FormatError("it went wrong", 4),
        PageLostError("it went wrong"),
        PagePythonError("Traceback", "webpte.errors.FormatError: it went wrong"),
    ],
)
def test_errors_of_webpte_end_every_command_with_a_sentence(
    error: Exception, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(_arguments: list[str]) -> int:
        raise error

    monkeypatch.setattr(bench, "main", fail)
    assert cli.main(["bench", "README.md"]) == 1
    assert capsys.readouterr().err.startswith("error: it went wrong")


@pytest.mark.parametrize("error", [ValueError("x"), PagePythonError("Traceback", "ValueError: x")])
def test_faults_keep_their_traceback(error: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_arguments: list[str]) -> int:
        raise error

    monkeypatch.setattr(bench, "main", fail)
    with pytest.raises(type(error)):
        cli.main(["bench", "README.md"])


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM])
def test_serves_until_stopped(root: Path, how: signal.Signals, tmp_path: Path) -> None:
    runtime.ensure_runtime()
    (tmp_path / "own.txt").write_text("mine")
    process = subprocess.Popen(
        [sys.executable, str(root / "serve.py"), "--port", "0", "--folder", str(tmp_path)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        # Shells ignore SIGINT for background processes, whose children inherit that.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # noqa: PLW1509
    )
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        found = re.search(r"http://localhost:(\d+)/", line)
        assert found, line
        connection = http.client.HTTPConnection(
            "localhost", int(found[1]), timeout=limits.SOCKET_SECONDS
        )
        for path in ("/harness.html", "/models/index.json", "/folder/own.txt"):
            connection.request("GET", path)
            reply = connection.getresponse()
            assert reply.status == 200
            content = reply.read()
        assert content == b"mine"
        connection.close()
    finally:
        process.send_signal(how)
        out, err = process.communicate(timeout=limits.PROCESS_SECONDS)
    assert process.returncode == 0
    assert "stopped" in out
    assert err == ""


def test_prints_addresses_that_open_the_programs_of_a_folder(
    root: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    program = (root / "web" / "samples" / "add.pte").read_bytes()
    for name in ("my model.pte", "chat/model.pte", "notes.txt", "bundle.bpte"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(program)
    fetched: dict[str, bytes] = {}

    def visit(site: Site) -> None:
        for link in re.findall(r"\?url=(\S+)", capsys.readouterr().out):
            connection = http.client.HTTPConnection(
                "localhost", int(site.url.rpartition(":")[2].strip("/")),
                timeout=limits.SOCKET_SECONDS,
            )  # fmt: skip
            connection.request("GET", link)
            fetched[link] = connection.getresponse().read()
            connection.close()

    monkeypatch.setattr(Site, "wait", visit)
    assert cli.main(["--port", "0", "--folder", str(tmp_path)]) == 0
    names = ("bundle.bpte", "my%20model.pte", "chat/model.pte")
    assert fetched == {f"/folder/{name}": program for name in names}


def test_tells_how_many_programs_are_not_listed(tmp_path: Path) -> None:
    url = "http://localhost:8000/"
    assert cli._links(tmp_path, url) == [
        f"{tmp_path} has no program (.pte); its files are at {url}folder/NAME"
    ]
    for number in range(7):
        (tmp_path / f"{number}.pte").touch()
    assert cli._links(tmp_path, url)[4:] == [
        f"4.pte: {url}?url=/folder/4.pte",
        f"and 2 more in {tmp_path}",
    ]


def test_stopped_as_soon_as_the_address_is_known(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    runtime.ensure_runtime()
    printed: list[str] = []

    def interrupted(line: str, **_options: object) -> None:
        printed.append(line)
        if len(printed) == 1:
            raise KeyboardInterrupt

    monkeypatch.setattr("builtins.print", interrupted)
    assert cli.main(["--port", "0", "--folder", str(tmp_path)]) == 0
    assert "stopped" in printed[-1]


def test_missing_folder_is_one_message(root: Path, tmp_path: Path) -> None:
    done = serve(root, "--folder", str(tmp_path / "none"))
    assert done.returncode == 1
    assert "there is no such folder" in done.stderr
    assert "Traceback" not in done.stderr


def test_taken_port_is_one_message(root: Path) -> None:
    runtime.ensure_runtime()
    with Site() as site:
        done = serve(root, "--port", str(site.port))
    assert done.returncode == 1
    assert done.stderr.startswith(f"error: port {site.port} is taken")
    assert "Traceback" not in done.stderr


def test_interrupt_elsewhere_is_no_traceback(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupt() -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(runtime, "ensure_runtime", interrupt)
    monkeypatch.setattr(signal, "signal", lambda *_: None)
    assert cli.main(["setup"]) == 130
    assert capsys.readouterr().err == "\nstopped\n"


def test_named_chromium_that_does_not_start(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(chromium.ENVIRONMENT_VARIABLE, os.devnull)
    with pytest.raises(HostError, match="does not start as a browser"):
        chromium.find()


def test_flags_name_the_adapter() -> None:
    assert "--use-webgpu-adapter=swiftshader" in chromium.flags()
    assert "--use-webgpu-adapter=swiftshader" not in chromium.flags("hardware")
    assert "--headless=new" in chromium.flags("hardware")
