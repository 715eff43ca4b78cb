"""A fresh Python interpreter, with the paths of the tests."""

from __future__ import annotations

import os
import subprocess
import sys

from webpte_host.base.layout import ROOT


def in_python(code: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run code in a fresh interpreter."""
    paths = os.pathsep.join([str(ROOT / "pysrc"), str(ROOT / "tests")])
    return subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": paths, **environment},
        capture_output=True,
        text=True,
        check=False,
    )
