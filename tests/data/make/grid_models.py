"""Small random Qwen2-VL and Qwen2.5-VL, which see grids of patches; see make_image_text.py."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from importlib import import_module
from itertools import product
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch
from PIL import Image

from data.make.small_vlm import COLOURS, text_settings, tokenizer_of
from data.make.task_models import transformers as tf
from support.harness.image_text_cases import STEP_PICTURES, STEP_SPLIT, STEP_TEXT, made

smart_resize = import_module(
    "transformers.models.qwen2_vl.image_processing_pil_qwen2_vl"
).smart_resize

SPECIAL = [
    *("<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|vision_start|>", "<|image_pad|>"),
    *("<|vision_end|>", "<|video_pad|>"),
]
TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message.role }}\n"
    "{% if message.content is string %}{{ message.content }}{% else %}"
    "{% for part in message.content %}{% if part.type == 'image' %}"
    "<|vision_start|><|image_pad|><|vision_end|>{% else %}{{ part.text }}{% endif %}{% endfor %}"
    "{% endif %}<|im_end|>\n{% endfor %}{{ '<|im_start|>assistant\n' if add_generation_prompt }}"
)
ENDS = {"pad_token_id": 0, "bos_token_id": 0, "eos_token_id": 2}
ROPE = {"rope_type": "default", "rope_theta": 10000.0, "mrope_section": [2, 1, 1]}


class StillProcessor(tf.Qwen2VLProcessor):  # type: ignore[misc]
    """The processor of Qwen2-VL without its processor of videos, which needs torchvision."""

    def __init__(
        self, image_processor: Any = None, tokenizer: Any = None, chat_template: Any = None
    ) -> None:
        self.image_token, self.video_token = "<|image_pad|>", "<|video_pad|>"
        self.image_token_id, self.video_token_id = (
            tokenizer.convert_tokens_to_ids(token) for token in (self.image_token, self.video_token)
        )
        tf.ProcessorMixin.__init__(self, image_processor, tokenizer, chat_template=chat_template)

    @classmethod
    def of(cls, folder: Path) -> Self:
        """Return the processor of a model's folder."""
        pictures = tf.Qwen2VLImageProcessorPil.from_pretrained(folder)
        return cls(pictures, tf.PreTrainedTokenizerFast.from_pretrained(folder), TEMPLATE)


def grids(kind: str, **vision: Any) -> tuple[Any, Any]:
    """Return a model whose rows are squares of 8 by 8 pixels, and its processor."""
    names = {"eos_token": "<|im_end|>", "pad_token": "<|endoftext|>"}
    tokens = tokenizer_of(SPECIAL, TEMPLATE, **names)
    config = getattr(tf, f"{kind}Config")(
        vision_config={
            "depth": 2,
            "num_heads": 2,
            "patch_size": 4,
            "temporal_patch_size": 2,
            **vision,
        },
        text_config={**text_settings(tokens), **ENDS, "rope_parameters": ROPE},
        image_token_id=SPECIAL.index("<|image_pad|>"),
        video_token_id=SPECIAL.index("<|video_pad|>"),
        vision_start_token_id=SPECIAL.index("<|vision_start|>"),
        vision_end_token_id=SPECIAL.index("<|vision_end|>"),
        tie_word_embeddings=False,
        **ENDS,
    )
    pictures = tf.Qwen2VLImageProcessorPil(
        size={"shortest_edge": 256, "longest_edge": 1536}, patch_size=4, merge_size=2, **COLOURS
    )
    model = getattr(tf, f"{kind}ForConditionalGeneration")(config)
    return model, StillProcessor(pictures, tokens, TEMPLATE)


# Windows of 2 by 2 rows, within which the first of two layers attends.
GRIDS: dict[str, Callable[[], tuple[Any, Any]]] = {
    "grid": partial(grids, "Qwen2VL", embed_dim=16, hidden_size=32, mlp_ratio=2),
    "windows": partial(
        grids,
        "Qwen2_5_VL",
        hidden_size=16,
        out_hidden_size=32,
        intermediate_size=24,
        window_size=16,
        fullatt_block_indexes=[1],
    ),
}


def steps(root: Path) -> dict[str, np.ndarray]:
    """Return what transformers computes on the way to an answer about pictures, step by step."""
    found: dict[str, np.ndarray] = {"sizes": np.array(list(_sizes()))}
    for name in GRIDS:
        model = tf.AutoModelForImageTextToText.from_pretrained(root / name).eval()
        pictures = [Image.fromarray(made(one)) for one in STEP_PICTURES]
        given = StillProcessor.of(root / name)(
            text=[STEP_TEXT], images=pictures, return_tensors="pt"
        )
        with torch.no_grad():
            seen = model.get_image_features(given["pixel_values"], given["image_grid_thw"])
            positions, _ = model.model.get_rope_index(
                given["input_ids"], given["mm_token_type_ids"], given["image_grid_thw"]
            )
            logits = model(**given, use_cache=False).logits
        values = {
            "tokens": given["input_ids"][0],
            "grids": given["image_grid_thw"],
            "rows": torch.cat(list(seen.pooler_output)),
            "positions": positions[:, 0],
            "logits": logits[0, [STEP_SPLIT - 1, -1]],
        }
        found |= {f"{name}.{key}": value.numpy() for key, value in values.items()}
    # All models have the same pixels, in two frames that are the same.
    frames = given["pixel_values"].unflatten(1, (3, 2, 16))
    assert torch.equal(frames[:, :, 0], frames[:, :, 1])
    return {**found, "pixels": frames[:, :, 0].numpy()}


def _sizes() -> Iterator[tuple[int, int, int, int]]:
    """Yield heights and widths of pictures, before and after the processor scales them."""
    for height, width in product((1, 2, 7, 9, 12, 23, 29, 61, 67, 120, 199, 400), repeat=2):
        if max(height, width) <= 200 * min(height, width):
            yield height, width, *smart_resize(height, width, 8, 256, 1536)
