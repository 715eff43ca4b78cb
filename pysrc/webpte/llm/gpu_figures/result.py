"""The result of a benchmark: JSON that can be saved, put into a link, and read from strangers."""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from typing import Any

from webpte.engine.files.json_reader import Table, parse_table
from webpte.engine.gpu.device_info import DeviceInfo

FORMAT = "webpte-bench 1"
FRAGMENT = "#bench="
MAX_BYTES = 64 << 10  # of a result as JSON
MAX_LINK = 16 << 10  # characters of a link
MAX_ROWS, MAX_TEXT = 100, 300
UNITS = ("ms", "us", "tokens/s", "TFLOP/s", "GB/s")  # of times, less is better; of others, more
LIMITS = ("maxBufferSize", "maxComputeWorkgroupStorageSize", "maxComputeInvocationsPerWorkgroup")


class BenchError(ValueError):
    """A result that cannot be read; the message says why."""


@dataclass(frozen=True)
class BenchRow:
    """A figure of a device.

    unit   of UNITS
    share  the part of the device's peak that the work reaches, if the peak is known
    note   the error of a variant beside floats, for example
    """

    name: str
    value: float
    unit: str
    share: float | None = None
    note: str = ""

    @property
    def key(self) -> tuple[str, str]:
        return self.name, self.unit


@dataclass(frozen=True)
class BenchResult:
    """All figures of one benchmark, with where they were measured."""

    adapter: str
    browser: str
    webpte: str
    date: str
    software: bool = False
    features: tuple[str, ...] = ()
    limits: Mapping[str, int] = field(default_factory=dict)
    rows: tuple[BenchRow, ...] = ()

    def json(self) -> str:
        rows = [
            {name: value for name, value in asdict(row).items() if value not in (None, "")}
            for row in self.rows
        ]
        return json.dumps({"format": FORMAT, **asdict(self), "rows": rows}, indent=1) + "\n"

    def link(self, base: str) -> str:
        """Return the page's address with the result in its fragment."""
        packed = base64.urlsafe_b64encode(zlib.compress(self.json().encode(), 9)).decode()
        link = base.partition("#")[0] + FRAGMENT + packed.rstrip("=")
        if len(link) > MAX_LINK:
            raise BenchError(f"the link would have {len(link):,} characters: save the file instead")
        return link


def describe(
    info: DeviceInfo, browser: str, version: str, rows: Sequence[BenchRow] = ()
) -> BenchResult:
    """Return a result for this adapter and browser."""
    names = info.vendor, info.architecture, info.description
    return BenchResult(
        " ".join(filter(None, names)) or info.kind,
        browser[:MAX_TEXT],
        version,
        datetime.now(UTC).strftime("%Y-%m-%d"),
        info.software,
        info.features,
        {name: info.limits[name] for name in LIMITS if name in info.limits},
        tuple(rows),
    )


def read_result(text: str) -> BenchResult:
    """Read a result from JSON or from a link. Raises BenchError."""
    text = text.strip()
    if FRAGMENT in text[:MAX_LINK] and not text.startswith("{"):
        text = _unpack(text.partition(FRAGMENT)[2])
    if len(text.encode()) > MAX_BYTES:
        raise BenchError(f"a result has at most {MAX_BYTES:,} bytes, this has {len(text):,}")
    if not text:
        raise BenchError("there is nothing to compare with: paste the JSON of a result, or a link")
    if not text.startswith(("{", "[")):
        raise BenchError(
            "this is neither the JSON of a result nor a link to one: get it by “Copy JSON” or "
            "“Copy link” there"
        )
    table = parse_table(text, "the result", BenchError)
    if table.text("format", "") != FORMAT:
        raise BenchError(f"this is no result of a benchmark: its format is not {FORMAT!r}")
    limits = table.table("limits", Table({}, "limits", BenchError))
    rows = tuple(map(_row, table.tables("rows")))
    if len(rows) > MAX_ROWS:
        raise BenchError(f"a result has at most {MAX_ROWS:,} rows, this has {len(rows):,}")
    return BenchResult(
        table.text("adapter")[:MAX_TEXT],
        table.text("browser")[:MAX_TEXT],
        table.text("webpte")[:MAX_TEXT],
        table.text("date")[:MAX_TEXT],
        table.flag("software", False),
        tuple(str(name)[:MAX_TEXT] for name in table.listed("features", [])[:MAX_ROWS]),
        {name: limits.integer(name, low=0) for name in LIMITS if name in limits},
        rows,
    )


def _row(table: Table) -> BenchRow:
    value, unit = float(table.number("value")), table.text("unit")
    if value < 0 or unit not in UNITS:
        raise BenchError(f"{table.name} must be a positive number of {', '.join(UNITS)}")
    share = float(table.number("share", -1.0))
    note = table.text("note", "")[:MAX_TEXT]
    return BenchRow(table.text("name")[:MAX_TEXT], value, unit, share if share >= 0 else None, note)


def _unpack(packed: str) -> str:
    """Decompress a fragment, up to the largest result."""
    if len(packed) > MAX_LINK:
        raise BenchError(f"a link has at most {MAX_LINK:,} characters")
    try:
        data = base64.b64decode(packed + "=" * (-len(packed) % 4), b"-_", validate=True)
        stream: Any = zlib.decompressobj()
        text = stream.decompress(data, MAX_BYTES + 1)
        if not stream.eof and len(text) <= MAX_BYTES:
            raise BenchError("the link is cut off: copy all of it")
        return str(text, "utf-8")
    except (ValueError, zlib.error) as error:
        if isinstance(error, BenchError):
            raise
        raise BenchError("the link holds no result: copy all of it") from error
