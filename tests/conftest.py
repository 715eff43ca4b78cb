"""Options, order and fixtures of all tests."""

from __future__ import annotations

import gc
import os
import signal
from collections.abc import Callable, Generator
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from support.harness import extent
from support.harness.parts import FailureReporter, Part, TimeReporter, files_of
from webpte_host.base.layout import ROOT

# Tuning results of this machine must not decide which kernels are tested.
os.environ["WEBPTE_TUNING"] = ""
# Several processes run tests, on all processors: NumPy's threads for products of matrices, in each
# of them, would wait for each other busily. This has an effect only before NumPy is imported.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
# Mesa's driver for CPUs, natively and in Firefox, takes most of its time to compile kernels: for
# vectors of 128 bits an eighth to a quarter less than for 256.
os.environ.setdefault("LP_NATIVE_VECTOR_WIDTH", "128")


def _interrupt(number: int, frame: FrameType | None) -> None:
    signal.default_int_handler(number, frame)


# asyncio.run puts its own handler in place of Python's, and Python then describes that handler in
# an error nobody sees: with the result of the run, all its arrays included. That took a sixth of
# the time of tests of kernels. asyncio.run leaves any other handler in its place.
if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
    signal.signal(signal.SIGINT, _interrupt)

# Thousands of tests and their modules stay until the end. Python looks through objects for cycles
# less often than it does by default, and never again through these.
gc.set_threshold(10_000, 20, 20)


@pytest.hookimpl(wrapper=True)
def pytest_collection(session: pytest.Session) -> Generator[None, object, object]:
    """In a new checkout, collect when no other process does; the first compiles for all."""
    if hasattr(session.config, "workerinput"):  # of pytest-xdist, which this environment has
        from support.harness.distribute import COLLECTED_LATE, is_compiled, one_at_a_time

        if not is_compiled(ROOT / COLLECTED_LATE):
            with one_at_a_time():
                return (yield)
    return (yield)


def pytest_collection_finish() -> None:
    gc.collect()
    gc.freeze()


# Files of browser tests that start Python often or compile much, the longest first.
LONG = (
    *("site", "accessibility", "early", "broken_downloads", "repositories", "compiled_demo"),
    *("repository_tasks", "compiled", "compiled_tasks", "page", "chat_view", "npm", "variants"),
    *("harness", "task_view", "layout", "suites", "tables", "modes", "page_work", "tasks"),
    *("models_at_work", "page_library", "graph_view", "gallery", "speech_view", "big_files"),
    *("inputs_outputs", "bench_view", "llm", "start", "pictures", "schedules", "embed", "missing"),
    *("profile_view", "train_view", "tabs", "teach_view", "self_test", "program", "grids"),
)
# Files of native tests that compile most kernels.
LONG_NATIVE = (
    *("tables", "matrices", "fusion", "kv_cache", "decoder_fusion", "naga", "lora", "scheduler"),
    *("int8_products", "random_fusion", "adapter_classes", "phone", "suites", "joined_matrices"),
)


@pytest.fixture(scope="session")
def root() -> Path:
    """The top of the checkout."""
    return ROOT


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add options; --schedules and --seed are for tests/unit/schedules/test_random_schedules.py."""
    parser.addoption("--all", action="store_true", help="also run tests that are usually left out")
    parser.addoption("--schedules", type=int, help="the number of schedules to run")
    parser.addoption("--seed", type=int, default=0, help="the seed of random schedules")
    parser.addoption("--part", help="1/3 runs the first of three parts; files are not split")


@pytest.hookimpl(trylast=True)  # then there is a terminal
def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("all"):
        extent.run_everything()
    terminal = config.pluginmanager.get_plugin("terminalreporter")
    if terminal is not None:  # as in one process of several
        config.pluginmanager.register(FailureReporter(terminal))
        config.pluginmanager.register(TimeReporter(terminal))


@pytest.hookimpl(optionalhook=True)  # without pytest-xdist, nothing is distributed
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Distribute whole files, but the tests of a few one by one."""
    if config.getoption("dist") != "loadfile":
        return None
    from support.harness.distribute import FilesAndTests

    return FilesAndTests(config, log)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Sort browser tests last: asyncio.run fails once Playwright's event loop is running.

    The longest files of a folder come first, so that no process ends up alone with one.
    """
    folders = (("native", LONG_NATIVE), ("browser", LONG))

    def place(item: pytest.Item) -> tuple[int, int]:
        for at, (name, long) in enumerate(folders, 1):
            if item.path.is_relative_to(ROOT / "tests" / name):
                stem = item.path.stem.removeprefix("test_")
                return at, long.index(stem) if stem in long else len(long)
        return 0, 0

    items.sort(key=place)
    usual = {item for item in items if item.get_closest_marker("thorough") is None}
    if usual and not extent.everything():  # otherwise it is a thorough test that was named
        _keep(config, items, usual.__contains__)
    if text := config.getoption("--part"):
        chosen = files_of(Part.parse(text), [item.path for item in items])
        _keep(config, items, lambda item: item.path in chosen)


def _keep(
    config: pytest.Config, items: list[pytest.Item], wanted: Callable[[pytest.Item], bool]
) -> None:
    """Deselect all other tests."""
    others = [item for item in items if not wanted(item)]
    items[:] = [item for item in items if wanted(item)]
    config.hook.pytest_deselected(items=others)
