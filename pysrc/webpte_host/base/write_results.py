"""The file of `--json`, which several commands write."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from webpte_host.base.errors import HostError


def write_results(path: Path, results: Any) -> None:
    """Write results as JSON. Raises HostError."""
    try:
        path.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    except OSError as error:
        raise HostError(f"the results cannot be written to {path}: {error.strerror}.") from error
