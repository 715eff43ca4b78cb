#!/usr/bin/env python3
"""`python3 serve.py` serves the page; `python3 serve.py --help` lists the other commands."""

import sys
from pathlib import Path

if sys.version_info < (3, 11):  # noqa: UP036 - the message is for those who have an older Python
    sys.exit("webpte needs Python 3.11 or newer; this is Python " + sys.version.split()[0])

sys.path.insert(0, str(Path(__file__).resolve().parent / "pysrc"))

from webpte_host.cli import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
