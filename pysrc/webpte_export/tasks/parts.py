"""Models in two methods: an encoder run once, and a decoder run per query.

mask-generation                  vision_encoder(picture) -> its embedding
                                 mask_decoder(embedding, points, labels) -> masks, scores
zero-shot-image-classification   vision_encoder(pictures), text_encoder(tokens, last): vectors
                                 of length 1
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from webpte_export.errors import ExportError
from webpte_export.exporter import PreparedMethod
from webpte_export.tasks.heads import MAX_ARRAYS, MAX_TEXTS

MAX_POINTS = 16  # per prompt, including the corners of a box
_PREPROCESSOR, _TOKENIZER = "preprocessor_config.json", "tokenizer.json"


@dataclass(frozen=True)
class TaskParts:
    """A task's row: the class of transformers that reads its models, and the split.

    split    returns the methods of a model for pictures of a size, and constants of the program
    """

    reader: str
    needed: tuple[str, ...]
    split: Callable[[Any, tuple[int, int]], tuple[Mapping[str, PreparedMethod], dict[str, Any]]]


class VisionEncoder(nn.Module):
    """The encoder of SAM: a picture (1, 3, height, width) becomes its embedding."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.model = model

    def forward(self, pixels: Tensor) -> Tensor:
        found: Tensor = self.model.vision_encoder(pixels)[0]
        return found


class MaskDecoder(nn.Module):
    """The decoder of SAM: masks (1, masks, rows, columns) and scores (1, masks) of a prompt.

    points (1, count, 2) are in pixels of the prepared picture; labels (1, count): -1 absent, 0
    outside of the thing, 1 inside, 2 and 3 corners of a box around it.
    """

    def __init__(self, model: Any) -> None:
        super().__init__()
        prompts = model.prompt_encoder
        self.decoder, self.positions = model.mask_decoder, prompts.shared_embedding
        self.side = prompts.input_image_size
        kinds = [prompts.not_a_point_embed, *prompts.point_embed]
        self.register_buffer("kinds", torch.cat([one.weight.detach() for one in kinds]))
        size = model.config.prompt_encoder_config.image_embedding_size
        dense = prompts.no_mask_embed.weight.detach().reshape(1, -1, 1, 1)
        self.register_buffer("dense", dense.expand(1, -1, size, size).contiguous())
        with torch.no_grad():
            wide = model.get_image_wide_positional_embeddings()
        self.register_buffer("wide", wide.detach().contiguous())

    def forward(self, embedding: Tensor, points: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
        places = 2 * ((points + 0.5) / self.side) - 1
        angles = 2 * torch.pi * (places @ self.positions.positional_embedding)
        known = (labels >= 0).to(torch.float32)[:, :, None]
        waves = torch.cat([torch.sin(angles), torch.cos(angles)], dim=-1) * known
        prompt = waves + functional.embedding(labels + 1, self.kinds)
        masks, scores = self.decoder(
            image_embeddings=embedding,
            image_positional_embeddings=self.wide,
            sparse_prompt_embeddings=prompt[:, None],
            dense_prompt_embeddings=self.dense,
            multimask_output=True,
        )
        return masks[:, 0], scores[:, 0]


def split_sam(
    model: Any, size: tuple[int, int]
) -> tuple[Mapping[str, PreparedMethod], dict[str, Any]]:
    """Return an encoder of pictures and a decoder of masks."""
    side = model.config.vision_config.image_size
    if size != (side, side):
        raise ExportError(
            f"the model takes pictures of {side} by {side} pixels, but its "
            f"{_PREPROCESSOR} makes those of {size[1]} by {size[0]}."
        )
    numbers = torch.Generator().manual_seed(0)
    encoder, decoder = VisionEncoder(model).eval(), MaskDecoder(model).eval()
    pictures = [(torch.randn(1, 3, *size, generator=numbers),) for _ in range(2)]
    with torch.no_grad():
        embedding = encoder(*pictures[0])

    def call(*labels: int) -> tuple[Tensor, ...]:
        points = torch.rand(1, len(labels), 2, generator=numbers) * side
        return embedding, points, torch.tensor([labels])

    calls = [call(1, 0, -1), call(2, 3), call(1, 1, 0, 0, 1, 2, 3)]
    count = {1: torch.export.Dim("points", max=MAX_POINTS)}
    return {
        "vision_encoder": PreparedMethod(encoder, pictures),
        "mask_decoder": PreparedMethod(decoder, calls, ({}, count, count)),
    }, {}


class PictureVectors(nn.Module):
    """The half of CLIP that encodes pictures: vectors (pictures, width) of length 1."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.vision = model.vision_model
        self.projection = getattr(model, "visual_projection", nn.Identity())
        self.head = getattr(self.vision, "head", None)  # SigLIP's

    def forward(self, pixels: Tensor) -> Tensor:
        found = self.vision(pixel_values=pixels)
        pooled = found.pooler_output if self.head is None else self.pooled(found.last_hidden_state)
        return functional.normalize(self.projection(pooled), dim=-1)

    def pooled(self, states: Tensor) -> Tensor:
        """Apply SigLIP's head; its own code keeps a dim of 1 that ExecuTorch cannot lower."""
        assert self.head is not None  # called only then
        probe = self.head.probe.expand(states.shape[0], -1, -1)
        chosen = self.head.attention(probe, states, states, need_weights=False)[0][:, 0]
        added: Tensor = self.head.mlp(self.head.layernorm(chosen))
        return chosen + added


class TextVectors(nn.Module):
    """The half of CLIP that encodes texts: vectors (texts, width) of length 1.

    tokens and last are (texts, length); last is 1 at the token whose state stands for the text.
    """

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.text = model.text_model
        self.causal = model.config.model_type != "siglip"
        head = getattr(self.text, "head", None)  # SigLIP's
        self.projection = head if head is not None else model.text_projection

    def forward(self, tokens: Tensor, last: Tensor) -> Tensor:
        states = self.text.embeddings(input_ids=tokens)
        mask = None
        if self.causal:
            length = tokens.shape[1]
            mask = torch.full((length, length), -1e9).triu(1)[None, None]
        states = self.text.encoder(inputs_embeds=states, attention_mask=mask).last_hidden_state
        states = self.text.final_layer_norm(states)
        chosen = (states * last.to(torch.float32)[:, :, None]).sum(dim=1)
        return functional.normalize(self.projection(chosen), dim=-1)


def split_clip(
    model: Any, size: tuple[int, int]
) -> tuple[Mapping[str, PreparedMethod], dict[str, Any]]:
    """Return encoders of pictures and of texts, and constants that turn products into logits."""
    if model.config.model_type not in ("clip", "siglip"):
        raise ExportError(
            f"the model is a {model.config.model_type}; known are clip and siglip for "
            "zero-shot-image-classification."
        )
    numbers = torch.Generator().manual_seed(0)

    def picture(count: int) -> tuple[Tensor, ...]:
        return (torch.randn(count, 3, *size, generator=numbers),)

    pictures = {0: torch.export.Dim("pictures", max=MAX_ARRAYS)}
    bias = getattr(model, "logit_bias", None)
    return {
        "vision_encoder": PreparedMethod(
            PictureVectors(model).eval(), [picture(2), picture(1)], (pictures,)
        ),
        "text_encoder": _text_encoder(model),
    }, {
        "logit_scale": float(model.logit_scale.detach().exp()),
        "logit_bias": 0.0 if bias is None else float(bias.detach()),
    }


def _text_encoder(model: Any) -> PreparedMethod:
    config = model.config.text_config
    longest = config.max_position_embeddings
    numbers = torch.Generator().manual_seed(0)

    def call(texts: int, tokens: int) -> tuple[Tensor, ...]:
        ids = torch.randint(0, config.vocab_size, (texts, tokens), generator=numbers)
        return ids, functional.one_hot(torch.arange(texts) % tokens, tokens)

    sizes = {
        0: torch.export.Dim("texts", max=MAX_TEXTS),
        1: torch.export.Dim("length", max=longest),
    }
    calls = [call(3, min(longest, 9)), call(1, 2), call(2, longest)]
    return PreparedMethod(TextVectors(model).eval(), calls, (sizes, sizes))


class PlaceEncoder(nn.Module):
    """The half of OWL-ViT that encodes a picture: a vector and a box for each place.

    Returns vectors (1, places, width) of length 1; an addend for their products with a text's
    vector, and a factor for the sums (1, places, 2); and boxes (1, places, 4).
    """

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.model = model
        self.register_buffer("bias", model.box_bias.detach().clone())

    def forward(self, pixels: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        vision, head = self.model.owlvit.vision_model, self.model.class_head
        states = vision.post_layernorm(vision(pixel_values=pixels).last_hidden_state)
        states = self.model.layer_norm(states[:, 1:] * states[:, :1])
        vectors = functional.normalize(head.dense0(states), dim=-1)
        # Not ELU, which ExecuTorch's partitioner lacks.
        scale = head.logit_scale(states)
        scale = functional.relu(scale) + torch.exp(-functional.relu(-scale))
        changes = torch.cat([head.logit_shift(states), scale], dim=-1)
        return vectors, changes, torch.sigmoid(self.model.box_head(states) + self.bias)


def split_owl(
    model: Any, size: tuple[int, int]
) -> tuple[Mapping[str, PreparedMethod], dict[str, Any]]:
    """Return an encoder of the places of a picture, and an encoder of texts."""
    side = model.config.vision_config.image_size
    if model.config.model_type != "owlvit" or size != (side, side):
        raise ExportError(
            f"the model is a {model.config.model_type} for pictures of {size[1]} by {size[0]} "
            f"pixels; known is owlvit, at the size of its config, {side} by {side}."
        )
    numbers = torch.Generator().manual_seed(0)
    pictures = [(torch.randn(1, 3, *size, generator=numbers),) for _ in range(2)]
    return {
        "vision_encoder": PreparedMethod(PlaceEncoder(model).eval(), pictures),
        "text_encoder": _text_encoder(model.owlvit),
    }, {}


PARTS = {
    "mask-generation": TaskParts("AutoModelForMaskGeneration", (_PREPROCESSOR,), split_sam),
    "zero-shot-image-classification": TaskParts(
        "AutoModelForZeroShotImageClassification", (_PREPROCESSOR, _TOKENIZER), split_clip
    ),
    "zero-shot-object-detection": TaskParts(
        "AutoModelForZeroShotObjectDetection", (_PREPROCESSOR, _TOKENIZER), split_owl
    ),
}
