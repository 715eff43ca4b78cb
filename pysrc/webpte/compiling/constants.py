"""Constants of a compiled program, as byte ranges of files that a page fetches.

Constants that are bytes of the program's own files stay there. Constants that were computed or
rearranged while the program was loaded go into a further file.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import PurePath

from webpte.engine.files.source import ByteSource, FileSource, Region
from webpte.engine.gpu.device import Transfer
from webpte.errors import SourceError

_COMPUTED = ""  # stands for the further file, until its contents are known
_ALIGNMENT = 16  # of constants in the further file
_CHUNK_BYTES = 8 << 20


@dataclass(eq=False)
class ConstantFiles:
    """The files of a compiled program's constants. `rows` has a row for each transfer:

    [buffer, file, offset, bytes, dtype to convert from or None]
    """

    own: Collection[ByteSource]  # the files of the program and its parts
    files: dict[str, ByteSource] = field(default_factory=dict)
    computed: bytearray = field(default_factory=bytearray)
    rows: list[list[object]] = field(default_factory=list)
    _written: dict[Region, int] = field(default_factory=dict)

    async def add(self, transfers: Iterable[Transfer]) -> None:
        for one in transfers:
            region = one.region
            if region.source in self.own or isinstance(region.source, FileSource):
                file, offset = self._file_of(region.source), region.offset
            else:
                file, offset = _COMPUTED, await self._compute(region)
            self.rows.append([one.buffer, file, offset, region.size, one.convert])

    def name_computed(self) -> dict[str, bytes]:
        """Return the further file, or no file, and name that file in the rows by its contents."""
        if not self.computed:
            return {}
        data = bytes(self.computed)
        name = f"constants-{sha256(data).hexdigest()[:12]}.bin"
        self.rows = [[b, file or name, *rest] for b, file, *rest in self.rows]
        return {name: data}

    def _file_of(self, source: ByteSource) -> str:
        name = PurePath(source.name).name or "model"
        if not name.endswith((".pte", ".ptd")):
            name += ".pte"
        if self.files.setdefault(name, source) != source:
            raise SourceError(f"two files of the program are called {name}; rename one of them")
        return name

    async def _compute(self, region: Region) -> int:
        """Add bytes to the further file, unless they are there; return their offset."""
        if region not in self._written:
            self.computed += bytes(-len(self.computed) % _ALIGNMENT)
            self._written[region] = len(self.computed)
            for start in range(0, region.size, _CHUNK_BYTES):
                length = min(_CHUNK_BYTES, region.size - start)
                self.computed += await region.view(start, length)
        return self._written[region]
