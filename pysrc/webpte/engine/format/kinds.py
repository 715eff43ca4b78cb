"""Recognition of files that are not `.pte`, by their first bytes, with advice for the user.

People drop any file: a checkpoint, the page that a server sent instead of the file, the pointer
that Git LFS left in its place. The file's name does not reveal that.
"""

from __future__ import annotations

from struct import unpack_from

HEAD = 256  # bytes that suffice, with the longest names of archives

_EXPORT = "export the model with ExecuTorch's Vulkan partitioner and open the .pte"
_CONVERT = "load the model in PyTorch, then " + _EXPORT

_PICTURE = "open a program first: pictures go to its inputs"
_SOUND = "open a program first: sounds go to its inputs"
_VIDEO = "open a program first: single pictures go to its inputs"

_NATIVE_PROGRAM = b"program.ptg"  # the first entry of a .ptn
_NATIVE = (
    "export the same model with ExecuTorch's Vulkan partitioner (to_edge_transform_and_lower and "
    "to_executorch, not to_native) and open the .pte"
)

# (offset, bytes there, kind of file, advice)
_MAGIC: tuple[tuple[int, bytes, str, str], ...] = (
    (4, b"FT01", "a .ptd file, the constants of a program", "open it together with its .pte"),
    (4, b"NPTG", "a program of ExecuTorch's native backend (of a .ptn)", _NATIVE),
    (4, b"TFL3", "a TensorFlow Lite model", _CONVERT),
    (0, b"GGUF", "a GGUF file (llama.cpp)", "python3 serve.py export makes a .pte of it"),
    (0, b"\x89PNG", "a PNG picture", _PICTURE),
    (0, b"\xff\xd8\xff", "a JPEG picture", _PICTURE),
    (0, b"GIF8", "a GIF picture", _PICTURE),
    (8, b"WEBP", "a WebP picture", _PICTURE),
    (8, b"WAVE", "a WAV recording", _SOUND),
    (0, b"ID3", "an MP3 recording", _SOUND),
    (0, b"OggS", "an Ogg recording", _SOUND),
    (0, b"fLaC", "a FLAC recording", _SOUND),
    (4, b"ftypavif", "an AVIF picture", _PICTURE),
    (4, b"ftyphei", "a HEIC picture", _PICTURE),
    (4, b"ftypM4A", "an M4A recording", _SOUND),
    (4, b"ftyp", "a video (MP4 or QuickTime)", _VIDEO),
    (0, b"\x1aE\xdf\xa3", "a video (Matroska or WebM)", _VIDEO),
    (8, b"AVI ", "a video (AVI)", _VIDEO),
    (0, b"\x93NUMPY", "a NumPy array", "name it .npy: then it goes to an input"),
    (
        0,
        b"version https://git-lfs",
        "a Git LFS pointer, not the file itself",
        "run git lfs pull in its repository, or download the file itself",
    ),
    (0, b"\x1f\x8b", "a gzip archive", "unpack it and open the .pte in it"),
    (0, b"%PDF", "a PDF document", _EXPORT),
    (0, b"\x80\x02", "a pickled PyTorch checkpoint", _CONVERT),
    (0, b"\x80\x04", "a pickled Python object", _CONVERT),
)


# Parts of the first entry's name in archives of PyTorch: NAME/data.pkl by torch.save,
# NAME/data/weights/weight_0 and others by torch.export.save.
_TORCH_ENTRIES = (b"data.pkl", b".format_version", b"archive_format", b"/data/", b"/byteorder")


def is_page(head: bytes) -> bool:
    """Return whether bytes are the start of an HTML page."""
    return head[:HEAD].lstrip().lower().startswith((b"<!doctype html", b"<html", b"<head"))


def kind_of(head: bytes) -> tuple[str, str]:
    """Return the kind of file that starts with these bytes, and advice."""
    head = head[:HEAD]
    if not head:
        return "an empty file", "download or export it again"
    for at, magic, what, do in _MAGIC:
        if head[at : at + len(magic)] == magic:
            return what, do
    if is_page(head):
        return (
            "an HTML page, perhaps what a server sent instead of the file",
            "look at the address in a browser, and take the link of the download",
        )
    if head.lstrip().lower().startswith(b"<?xml"):
        return "an XML document, perhaps an error of the server", "look at it in a browser"
    if head.startswith(b"PK\x03\x04"):
        return _zip(head)
    # A u64 with the length of the JSON that follows it.
    if head[8:10] == b'{"' and head[6:8] == b"\0\0":
        return "a safetensors file: weights without a program", _CONVERT
    # Protobuf: field 1 is the small ir_version, field 2 the producer's name, or field 8 a domain's.
    if len(head) > 3 and head[0] == 0x08 and 0 < head[1] < 32 and head[2] in (0x12, 0x1A, 0x3A):
        return "an ONNX model", "take the PyTorch model that it was made from, and " + _EXPORT
    if _is_text(head):
        what = "a JSON file" if head.lstrip().startswith((b"{", b"[")) else "a text file"
        return what, _EXPORT
    return (
        "a file of an unknown kind",
        "if it was a .pte, it is damaged: download or export it again",
    )


def _is_text(head: bytes) -> bool:
    """Return whether bytes are the start of UTF-8 text; its last character may be cut."""
    try:
        text = head.decode()
    except UnicodeDecodeError as error:
        if error.reason != "unexpected end of data":
            return False
        text = head[: error.start].decode()
    return all(one.isprintable() or one in "\n\r\t\f\ufeff" for one in text)


def _zip(head: bytes) -> tuple[str, str]:
    """Recognize an archive by the name of its first entry."""
    (length,) = unpack_from("<H", head, 26) if len(head) >= 30 else (0,)
    name = head[30 : 30 + length]
    if name.endswith(b".npy"):
        return "an archive of NumPy arrays", "name it .npz: then they go to the inputs"
    if name == _NATIVE_PROGRAM:
        what = "a .ptn package: a program of ExecuTorch's native backend, with its weights"
        return what, _NATIVE
    if any(part in name for part in _TORCH_ENTRIES):
        return "a PyTorch checkpoint or saved program (.pt, .pth, .pt2)", _CONVERT
    return "a zip archive", "unpack it and open the .pte in it"
