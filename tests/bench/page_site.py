"""Writes a small site with page.html and the scripts of tests/bench that run in a page.

    PYTHONPATH=pysrc:tests python -m bench.page_site OUT

It has Pyodide and webpte, and no models: put folders or programs beside page.html, or links to
them. Any server will do that sends `Cross-Origin-Opener-Policy: same-origin` and
`Cross-Origin-Embedder-Policy: require-corp`; a server that takes POST /log and /result gets the
figures. Open page.html?script=task_page.py&what=search, for example; each script lists its options.
"""

from __future__ import annotations

import argparse
import shutil
from pathlib import Path

from webpte_host.base.bundle import package_bundle
from webpte_host.base.layout import WEB
from webpte_host.base.progress import Display
from webpte_host.setup.runtime import ensure_runtime

HERE = Path(__file__).parent
START = "npm/start_python.js"
RUNTIME = ("pyodide", "tokenizers")


def write_site(out: Path) -> None:
    """Write the site into a folder, over an earlier one."""
    runtime = ensure_runtime(Display())
    for name in RUNTIME:
        shutil.copytree(runtime / name, out / "runtime" / name, dirs_exist_ok=True)
    (out / START).parent.mkdir(exist_ok=True)
    shutil.copy(WEB / START, out / START)
    (out / "webpte.zip").write_bytes(package_bundle().archive().data)
    for path in (HERE / "page.html", HERE / "page.js", *HERE.glob("*_page.py")):
        shutil.copy(path, out)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path)
    write_site(parser.parse_args().out)
