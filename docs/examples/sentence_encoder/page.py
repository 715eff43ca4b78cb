"""The page: the encoder is loaded once, and each click ranks what is written in the fields."""

from __future__ import annotations

import json
from pathlib import Path
from time import perf_counter

from pyscript import document, when
from rank import SentenceEncoder

query, sentences, button, status, ranked = (
    document.getElementById(name) for name in ("query", "sentences", "rank", "status", "ranked")
)


@when("click", "#rank")
async def show_ranking() -> None:
    button.disabled = True
    status.textContent = "Ranking"
    lines = [line.strip() for line in sentences.value.splitlines() if line.strip()]
    started = perf_counter()
    try:
        rows = await encoder.rank(query.value, lines)
        ranked.textContent = "\n".join(f"{score:+.3f}  {line}" for score, line in rows)
        status.textContent = f"{len(rows)} sentences in {(perf_counter() - started) * 1000:.0f} ms"
    except Exception as error:
        status.textContent = str(error)
    button.disabled = False


example = json.loads(Path("ranking.json").read_text(encoding="utf-8"))[0]
query.value = example["query"]
sentences.value = "\n".join(sorted(sentence for _, sentence in example["ranked"]))
status.textContent = "Loading the model"
vocabulary = Path("vocab.txt").read_text(encoding="utf-8")
try:
    encoder = await SentenceEncoder.load("/models/minilm/model.pte", vocabulary)
    status.textContent = "Ready"
    button.disabled = False
except Exception as error:
    status.textContent = str(error)
