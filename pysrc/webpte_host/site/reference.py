"""`serve.py docs`: writes the pages of docs/ and the reference of the Python API as HTML.

markdown-it-py renders Markdown, pdoc renders docstrings, both in a separate environment, where
`reference_pages.py` runs. Addresses are relative, without inline styles and scripts, so that the
result can be opened as files, and served under the page's content security policy.
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
from pathlib import Path

from webpte_host.base.errors import HostError
from webpte_host.base.layout import PYSRC, ROOT, STATE
from webpte_host.base.pinned_venv import PinnedVenv
from webpte_host.base.process import run_tool
from webpte_host.base.progress import Display

MARK = "webpte-docs.css"  # marks a folder that may be replaced
_ENVIRONMENT = STATE / "docs"
# The documented modules import the last two.
_PINNED = (
    "jinja2==3.1.6",
    "markdown-it-py==4.3.0",
    "markdown2==2.5.5",
    "markupsafe==3.0.4",
    "mdurl==0.1.2",
    "pdoc==16.0.0",
    "pygments==2.21.0",
    "flatbuffers==25.12.19",
    "numpy==2.4.6",
)
_BYTES_NEEDED = 100_000_000


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="serve.py docs",
        description="Writes docs/ and a reference of the Python API as HTML: open OUT/index.html.",
    )
    parser.add_argument(
        "out", type=Path, metavar="OUT", help="the folder to write; an earlier one is replaced"
    )
    out = parser.parse_args(arguments).out.resolve()
    if out.exists() and not (out / MARK).is_file() and (not out.is_dir() or any(out.iterdir())):
        raise HostError(f"{out} has other files in it: name a folder that is new or empty.")
    write_docs(out, Display())
    print(f"The documentation is in {out / 'index.html'}")
    return 0


def write_docs(out: Path, display: Display) -> None:
    """Write under a temporary name, and rename when complete. Raises HostError."""
    python = _python(display)
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".webpte-docs-", dir=out.parent) as temporary:
            made = Path(temporary) / "docs"
            with display.stage("Documentation and reference"):
                command = [str(python), "-m", "webpte_host.site.reference_pages", str(made)]
                env = {"PYTHONPATH": str(PYSRC), "PYTHONDONTWRITEBYTECODE": "1"}
                run_tool(command, "writing the documentation", cwd=ROOT, env=env)
            shutil.rmtree(out, ignore_errors=True)
            made.rename(out)
    except OSError as error:
        raise HostError(f"the documentation could not be written to {out}: {error}.") from error


def _python(display: Display) -> Path:
    made = PinnedVenv(_ENVIRONMENT, "The environment for documentation", _PINNED, _BYTES_NEEDED)
    if not made.is_ready():
        display.line("Setting up the environment for documentation (once)")

        def install() -> None:
            with display.stage("pdoc and markdown-it-py from PyPI"):
                hint = "Check the network connection and pip's settings, then run this again."
                made.pip_install(_PINNED, "--only-binary=:all:", "pdoc", hint)

        made.make(display, install)
    return made.python
