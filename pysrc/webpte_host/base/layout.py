"""The folders of a checkout."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
WEB = ROOT / "web"
PYSRC = ROOT / "pysrc"
WGSL = ROOT / "wgsl"

# Everything that serve.py writes is in here, ignored by git: deleting it is always safe.
STATE = ROOT / ".webpte"
RUNTIME = STATE / "runtime"
VENV = STATE / "venv"
MODELS = STATE / "models"  # installed by `serve.py models`
MODEL_CACHE = STATE / "model-cache"  # the results of its stages
