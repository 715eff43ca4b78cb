"""reranking: documents sorted by how well they answer a query, by a model that reads both."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from webpte.errors import InputError
from webpte.llm.text.sequences import LONGEST
from webpte.tasks.encoder import checked_text
from webpte.tasks.files import ModelFiles
from webpte.tasks.form import TEXT, Field, TaskForm
from webpte.tasks.scores import FUNCTIONS, check_top
from webpte.tasks.task import task
from webpte.tasks.text_classification import SequenceClassifier

_IDENTITY = "Identity"  # end of the class name of PyTorch's Identity


@task(
    "reranking",
    form=TaskForm(
        TEXT,
        (
            Field("query", "query", "animals that live with people", 1),
            Field(
                "documents",
                "texts, one in each line",
                "A cat sleeps on the sofa.\nThe shop opens at nine.\nWolves hunt in packs.",
                6,
                "\n",
            ),
        ),
    ),
)
class Reranking(SequenceClassifier):
    """Ranks documents for a query.

    transformers has no such pipeline; results have the form of `CrossEncoder.rank` in
    sentence-transformers.

    await task("Who wrote it?", documents)     # [{"corpus_id": 3, "score": 0.98, "text": ...}, ...]
    """

    def __init__(self, files: ModelFiles) -> None:
        super().__init__(files)
        if len(self.labels) != 1:
            self.refuse(f"it returns {len(self.labels)} numbers for a pair of texts, not one")

    async def __call__(
        self,
        query: str,
        documents: Sequence[str],
        *,
        top_k: int | None = None,
        return_documents: bool = True,
    ) -> list[dict[str, Any]]:
        """Return the documents, the best first: their index, score and text.

        Pairs that are too long are cut, the longer text first.
        """
        check_top(top_k)
        if isinstance(documents, str):
            raise InputError("give a list of documents, not one text")
        checked_text(query)
        texts = [checked_text(text) for text in documents]
        logits = await self.logits([(query, text) for text in texts], LONGEST)
        scores = FUNCTIONS["none" if self._is_plain() else "sigmoid"](logits)[:, 0].tolist()
        found: list[dict[str, Any]] = []
        for at in sorted(range(len(texts)), key=lambda at: -scores[at])[:top_k]:
            shown = {"text": texts[at]} if return_documents else {}
            found.append({"corpus_id": at, "score": scores[at], **shown})
        return found

    def _is_plain(self) -> bool:
        """Return whether the config declares that logits are the scores."""
        newer = self.config.table("sentence_transformers", None)
        named = None if newer is None else newer.text("activation_fn", None)
        named = named or self.config.text("sbert_ce_default_activation_function", None)
        return bool(named) and str(named).endswith(_IDENTITY)
