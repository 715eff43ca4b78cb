"""Where things are in a checkout."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
WEB = ROOT / "web"
PYSRC = ROOT / "pysrc"
WGSL = ROOT / "wgsl"

# Everything that serve.py makes is in here, ignored by git: deleting it is always safe.
STATE = ROOT / ".webpte"
RUNTIME = STATE / "runtime"
VENV = STATE / "venv"
MODELS = STATE / "models"  # what `serve.py models` installed
MODEL_CACHE = STATE / "model-cache"  # what its stages made
