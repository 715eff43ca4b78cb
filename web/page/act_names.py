"""Names of acts for the titles of errors: what someone wanted, in plain words."""

from __future__ import annotations

# By act, as `failure_text` takes it. Acts that are not here are "this".
DOING = {
    "open-file": "opening these files",
    "open-url": "opening this address",
    "device": "opening the program on this device",
    "kv-cache": "opening the program with this KV cache",
    "prompts": "opening the program with other prompts",
    "method": "choosing this method",
    "close": "closing the program",
    "go": "going to this entry",
    "card": "opening this sample",
    "link": "opening this link",
    "npy": "loading this file",
    "camera-open": "using the camera",
    "camera-frame": "using the camera",
    "camera-picture": "using the camera",
    "input-tokenizer": "loading this tokenizer",
    "batch-open": "showing this picture",
    "batch-save": "saving the answers",
    "compare": "comparing with this file",
    "png": "saving this picture",
    "copy": "copying this output",
    "download": "saving this output",
    "download-all": "saving the outputs",
    "share": "sharing this program",
    "share-frame": "sharing this program",
    "check-example": "checking the example",
    "library-open": "opening this file of the library",
    "library-agree": "keeping this program",
    "library-keep": "keeping this program",
    "library-delete": "deleting this file of the library",
    "library-refresh": "listing the library",
    "bench:compare": "reading the other result",
    "bench:link": "copying the link",
    "chat:tokenizer": "loading this tokenizer",
    "chat:tokenizer-url": "loading this tokenizer",
    "chat:pictures": "adding these pictures",
    "chat:export": "saving the conversation",
    "compare:run": "comparing",
    "compare:expected": "reading the expected outputs",
    "documents:add": "adding these documents",
    "documents:files": "adding these documents",
    "find:file": "loading this file",
    "rank:tokenizer": "loading this tokenizer",
    "speech:file": "loading this sound",
    "task:file": "loading this file",
    "train:file": "reading these texts",
    "train:tokenizer": "loading this tokenizer",
}


def doing_text(act: str, view: str = "") -> str:
    """Describe an act for an error; `view` is the title of the act's view, or ""."""
    return DOING.get(act) or (f"doing this in {view}" if view else "doing this")
