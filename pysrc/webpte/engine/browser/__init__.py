"""The browser's side: its files, their kept copies, downloads, locks and scripts."""

import sys

IN_BROWSER = sys.platform == "emscripten"
