"""The command line: selects the command, and shows its failures."""

from __future__ import annotations

import argparse
import contextlib
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from urllib.parse import quote

from webpte_host.base.errors import HostError, message_of

_USAGE = """\
usage: python3 serve.py [--port PORT] [--folder DIR]    serve the page (sets up what it needs first)
       python3 serve.py verify SUITE_DIR [options]      run a suite of programs, compare the outputs
       python3 serve.py export MODEL OUT [options]      export a PyTorch model, check the result
       python3 serve.py bench PROGRAM [options]         time a program, kernel by kernel
       python3 serve.py models [add NAME...]            list real models, and install them
       python3 serve.py devices                         list this machine's GPUs
       python3 serve.py api MODEL... [options]          answer OpenAI's API with language models
       python3 serve.py compile MODEL OUT [options]     compile a model for pages without Python
       python3 serve.py build OUT [options]             write the page as a static site for any host
       python3 serve.py docs OUT                        write the docs and API reference as HTML
       python3 serve.py test [pytest arguments]         run linters, type checks and tests
       python3 serve.py pictures [DIR] [options]        take pictures of every view of the page
       python3 serve.py setup                           set up the browser runtime only

Each command has --help."""

_FOLDER = "/folder/"
_MODELS = "/models/"
_PROGRAMS = (".pte", ".bpte")
_MOST_LINKS = 5
_LOOPBACK = ("127.0.0.1", "localhost", "::1")


def main(arguments: list[str]) -> int:
    signal.signal(signal.SIGTERM, _interrupt)
    try:
        return _command(arguments)(arguments[1:])
    except KeyboardInterrupt:
        print("\nstopped", file=sys.stderr)
        return 130
    except Exception as error:
        message = message_of(error)
        if message is None:
            raise
        print(f"error: {message}", file=sys.stderr)
        return 1


def _interrupt(_signal: int, _frame: FrameType | None) -> None:
    # SIGTERM cleans up like Ctrl-C.
    raise KeyboardInterrupt


def _command(arguments: list[str]) -> Callable[[list[str]], int]:
    """Return the command's function. Imports are inside, so that serving starts fast."""
    name = arguments[0] if arguments else ""
    if name == "test":
        from webpte_host.commands.test_command import main as run_checks

        return run_checks
    if name == "verify":
        from webpte_host.commands.verify import main as run_verify

        return run_verify
    if name == "export":
        from webpte_host.commands.export import main as run_export

        return run_export
    if name == "bench":
        from webpte_host.commands.bench import main as run_bench

        return run_bench
    if name == "devices":
        from webpte_host.commands.devices import main as list_devices

        return list_devices
    if name == "models":
        from webpte_host.commands.models import main as run_models

        return run_models
    if name == "api":
        from webpte_host.commands.api import main as run_api

        return run_api
    if name == "pictures":
        from webpte_host.site.pictures import main as take_pictures

        return take_pictures
    if name == "build":
        from webpte_host.commands.build import main as run_build

        return run_build
    if name == "compile":
        from webpte_host.commands.compile import main as run_compile

        return run_compile
    if name == "docs":
        from webpte_host.site.reference import main as write_docs

        return write_docs
    if name == "setup":
        return _setup
    if name and not name.startswith("-"):
        raise HostError(f"there is no command {name!r}.\n\n{_USAGE}")
    return lambda _rest: _serve(arguments)


def _setup(arguments: list[str]) -> int:
    from webpte_host.setup.runtime import ensure_runtime

    description = "Sets up the browser runtime (Pyodide, NumPy, PyScript), and serves nothing."
    argparse.ArgumentParser(prog="serve.py setup", description=description).parse_args(arguments)
    print(f"The browser runtime is in {ensure_runtime()}")
    return 0


def _serve(arguments: list[str]) -> int:
    from webpte_host.models.store import ModelStore
    from webpte_host.serving.routing import Mount
    from webpte_host.serving.server import Site
    from webpte_host.setup.runtime import ensure_runtime

    parser = argparse.ArgumentParser(prog="serve.py", usage=_USAGE.removeprefix("usage: "))
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on (%(default)s)")
    parser.add_argument(
        "--allow-host",
        action="append",
        default=[],
        metavar="NAME",
        help="a name besides localhost by which browsers may address this machine",
    )
    parser.add_argument("--port", type=int, default=8000, help="0: any free one (%(default)s)")
    parser.add_argument("--folder", type=Path, help=f"serve this folder too, as {_FOLDER}")
    options = parser.parse_args(arguments)
    models = ModelStore()
    with contextlib.suppress(OSError):  # a read-only checkout is served without
        models.write_index()
    mounts = [Mount(_MODELS, models.folder)]
    if options.folder is not None:
        if not options.folder.is_dir():
            raise HostError(f"--folder {options.folder}: there is no such folder.")
        mounts.append(Mount(_FOLDER, options.folder))
    ensure_runtime()
    with Site(
        host=options.host, port=options.port, mounts=mounts, names=options.allow_host
    ) as site:
        # A program that reads the address may stop the server before the next line is printed.
        try:
            print(f"webpte: {site.url}   (Ctrl-C stops it)", flush=True)
            if options.folder is not None:
                print("\n".join(_links(options.folder, site.url)))
            if options.host not in _LOOPBACK:
                print(
                    "Other machines can open it, "
                    "but browsers give WebGPU only to localhost and https."
                )
            site.wait()
        except KeyboardInterrupt:
            print("\nstopped")
    return 0


def _links(folder: Path, url: str) -> list[str]:
    """Return lines with the addresses that open the programs of a served folder."""
    found = [path for depth in ("", "*/") for path in sorted(folder.glob(f"{depth}*.*pte"))]
    programs = [path for path in found if path.suffix in _PROGRAMS and path.is_file()]
    if not programs:
        return [f"{folder} has no program (.pte); its files are at {url}{_FOLDER[1:]}NAME"]
    names = [path.relative_to(folder).as_posix() for path in programs]
    lines = [f"{name}: {url}?url={_FOLDER}{quote(name)}" for name in names[:_MOST_LINKS]]
    more = len(names) - _MOST_LINKS
    return [*lines, f"and {more} more in {folder}"] if more > 0 else lines
