"""Writes the files of a folder as a zip archive in memory, for a page that has no folders."""

from __future__ import annotations

import asyncio
import io
import zipfile
from collections.abc import Mapping

from webpte.engine.files.download import Progress
from webpte.engine.files.source import ByteSource
from webpte.errors import UnsupportedError

MOST_BYTES = 1 << 30  # of the files: Python in a page has two gigabytes for everything
_CHUNK_BYTES = 8 << 20
_EPOCH = (2020, 1, 1, 0, 0, 0)  # the same program makes the same archive


async def write_zip(
    folder: str, files: Mapping[str, bytes | ByteSource], progress: Progress | None = None
) -> bytes:
    """Return an archive with a folder of files; texts are compressed, weights are not."""
    sizes = {name: _size(contents) for name, contents in files.items()}
    done, total = 0, sum(sizes.values())
    if total > MOST_BYTES:
        raise UnsupportedError(
            f"the compiled folder has {total:,} bytes, and an archive in memory takes at most "
            f"{MOST_BYTES:,}: compile the file with serve.py compile"
        )
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for name, contents in files.items():
            info = zipfile.ZipInfo(f"{folder}/{name}", _EPOCH)
            is_text = isinstance(contents, bytes) and not name.endswith(".bin")
            info.compress_type = zipfile.ZIP_DEFLATED if is_text else zipfile.ZIP_STORED
            info.file_size = sizes[name]
            with archive.open(info, "w") as file:
                for start in range(0, sizes[name], _CHUNK_BYTES):
                    count = min(_CHUNK_BYTES, sizes[name] - start)
                    if isinstance(contents, bytes):
                        file.write(contents[start : start + count])
                        await asyncio.sleep(0)
                    else:
                        file.write(await contents.read(start, count))
                    done += count
                    if progress is not None:
                        progress("pack", done, total)
    return out.getvalue()


def _size(contents: bytes | ByteSource) -> int:
    return len(contents) if isinstance(contents, bytes) else contents.size
