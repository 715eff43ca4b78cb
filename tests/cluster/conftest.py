"""A real local cluster of Ray, which the tests of this folder share."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator
from tempfile import TemporaryDirectory

import pytest
import ray

from webpte_host.base.layout import PYSRC, ROOT

CPUS = 2
OBJECT_STORE = 100 << 20  # bytes


def pytest_configure(config: pytest.Config) -> None:
    """Ignore deprecations: Ray warns of its own calls, on import and later."""
    config.addinivalue_line("filterwarnings", "ignore::DeprecationWarning")


@pytest.fixture(scope="session")
def cluster() -> Iterator[None]:
    """A cluster on this machine, whose workers import webpte from here."""
    variables = {
        "PYTHONPATH": os.pathsep.join([str(PYSRC), str(ROOT / "tests")]),
        "RAY_AUTH_TOKEN": uuid.uuid4().hex,  # else Ray keeps one in the user's folder
        "RAY_USAGE_STATS_ENABLED": "0",
    }
    # Its own folder is short, because a path of sockets may have about a hundred letters.
    folder = TemporaryDirectory(prefix="ray-", ignore_cleanup_errors=True)
    with folder as place, pytest.MonkeyPatch.context() as patch:
        for name, value in variables.items():
            patch.setenv(name, value)
        ray.init(
            address="local",
            num_cpus=CPUS,
            object_store_memory=OBJECT_STORE,
            include_dashboard=False,
            _temp_dir=place,
            log_to_driver=False,
            logging_level="error",
        )
        yield
        ray.shutdown()
