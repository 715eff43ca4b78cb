"""Parts of the small models of make_image_text.py that all of them share."""

from __future__ import annotations

from typing import Any

from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
from tokenizers.trainers import BpeTrainer

from data.make.task_models import transformers as tf

CORPUS = (
    "What is in the picture? Describe it in one word. How many dogs are there, and what do they "
    "do? The first one is larger than the second. Compare both pictures, please. It is a cat."
)
COLOURS = {"image_mean": [0.48, 0.45, 0.4], "image_std": [0.27, 0.26, 0.28]}


def tokenizer_of(special: list[str], template: str, **names: str) -> Any:
    """Return a byte-level tokenizer with special tokens, some of which have names."""
    made = Tokenizer(models.BPE())
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    trainer = BpeTrainer(
        vocab_size=300,
        special_tokens=[AddedToken(one, normalized=False, special=True) for one in special],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    made.train_from_iterator([CORPUS], trainer)
    return tf.PreTrainedTokenizerFast(
        tokenizer_object=made, chat_template=template, model_max_length=4096, **names
    )


def text_settings(tokens: Any) -> dict[str, Any]:
    """Return the settings of the half that writes."""
    return {
        "vocab_size": len(tokens),
        "hidden_size": 32,
        "intermediate_size": 48,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "max_position_embeddings": 256,
        "tie_word_embeddings": False,
    }
