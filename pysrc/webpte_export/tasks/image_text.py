"""Exports models that answer questions about pictures: a program of three methods.

    token_embedding(tokens) -> embeddings (1, n, width)
    vision_encoder(pixels) -> embeddings (1, rows, width) of a picture, or of a tile
    text_decoder(embeddings, input_pos) -> logits of the last row

The names agree with ExecuTorch's runner of such models. Before anything is exported, the three
methods together are compared with the model on a prompt with a picture: a model that puts pictures
into its text in another way (attention to later rows) is refused. Models with text positions on
several axes have a fourth method: see grid_models.py.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from webpte_export.errors import ExportError
from webpte_export.exporter import Clock, PreparedMethod, export_methods
from webpte_export.exporter_patches import patch_exporter
from webpte_export.llm.decoder import Decoder
from webpte_export.llm.huggingface import json_table, token_ids
from webpte_export.llm.other_models import load_model, quantize_decoder
from webpte_export.llm.simplify_graph import rewritten
from webpte_export.llm.source import context_note
from webpte_export.lowering import quiet_logs
from webpte_export.quantize import quantize_weights
from webpte_export.report import Report
from webpte_export.suite_writer import Tolerance
from webpte_export.tasks import grid_models
from webpte_export.tasks.grid_models import GridVisionHalf, settle_pixels, text_half
from webpte_export.tasks.image_text_files import read_preprocessing, write_files

_TOLERANCE, _HALF_TOLERANCE = Tolerance(5e-3, 1e-3), Tolerance(0.2, 5e-2)  # for logits
_AGREE = 1e-3  # relative to the largest logit
_CONTEXT, _CHUNK = 4096, 512
_BEFORE = 5  # tokens before the picture in the compared prompt


def export_image_text(
    folder: Path,
    program: Path,
    *,
    quantize: str | None = None,
    max_context: int | None = None,
    half: bool = False,
) -> Report:
    """Export the model of a folder, and write the files of its task next to it.

    max_context   tokens and rows of pictures of a conversation; by default the model's limit, at
                  most 4096
    """
    clock = Clock()
    patch_exporter()
    model = load_model(folder, "AutoModelForImageTextToText")
    settings, most_rows = read_preprocessing(folder), 0
    if model.config.model_type in grid_models.KINDS:
        settings, most_rows = settle_pixels(settings, folder)
    beside = write_files(folder, program.parent, settings)
    clock.lap("reading")
    with torch.no_grad(), quiet_logs():
        vision = GridVisionHalf(model, most_rows) if most_rows else VisionHalf(model, folder)
        text = model.config.get_text_config()
        context = min(max_context or _CONTEXT, int(text.max_position_embeddings))
        chunk = min(max(_CHUNK, vision.most_rows), context)
        if vision.most_rows + 2 > context:
            raise ExportError(
                f"a picture has {vision.most_rows} rows, but the context holds {context}: too few "
                "to say something about it."
            )
        prompt = _prompt(model, vision.rows)
        expected = vision.reference(model, prompt)[0, -1]
        decoder: Decoder
        tables: nn.Module | None = None
        given: tuple[Tensor, ...] = ()
        if isinstance(vision, GridVisionHalf):
            decoder, tables = text_half(model, context)
            given = tables(vision.positions(_BEFORE, context))
        else:
            decoder = Decoder(language_model(model), context).eval()
        _compare(decoder, vision.module(*vision.calls[0]), prompt, expected, given)
        if quantize is not None:
            quantize_decoder(decoder, quantize)
            quantize_weights(vision.module, "8w")
        embedding = TokenEmbedding(decoder.model.get_input_embeddings())
    clock.lap("quantization")
    methods = _methods(embedding, vision, decoder, tables, chunk)
    return export_methods(
        methods,
        program,
        metadata=_metadata(model, folder, context, chunk),
        tolerance=_HALF_TOLERANCE if half else _TOLERANCE,
        quantize=quantize,
        half=half,
        strict=False,
        clock=clock,
        extra=context_note(max_context, context),
        beside=beside,
    )


class TokenEmbedding(nn.Module):
    """The embeddings (1, n, width) of tokens (1, n)."""

    def __init__(self, embedding: Any) -> None:
        super().__init__()
        self.embedding = embedding

    def forward(self, tokens: Tensor) -> Tensor:
        found: Tensor = self.embedding(tokens)
        return found


class ShuffledPatches(nn.Module):
    """The vision encoder of Idefics3 and SmolVLM: neighbouring patches become a row."""

    def __init__(self, model: Any, side: int) -> None:
        super().__init__()
        self.vision, self.connector = model.model.vision_model, model.model.connector
        seen: list[Tensor] = []
        places = self.vision.embeddings.position_embedding
        hook = places.register_forward_pre_hook(lambda _, given: seen.append(given[0]))
        with torch.no_grad():
            self.vision(pixel_values=torch.zeros(1, 3, side, side))
            hook.remove()
            self.register_buffer("places", places(seen[0]).clone())

    def forward(self, pixels: Tensor) -> Tensor:
        vision = self.vision
        patches = vision.embeddings.patch_embedding(pixels).flatten(2).transpose(1, 2)
        states = vision.encoder(inputs_embeds=patches + self.places, attention_mask=None)
        found: Tensor = self.connector(vision.post_layernorm(states.last_hidden_state))
        return found


class ProjectedPatches(nn.Module):
    """The vision encoder of LLaVA: the states of a layer of CLIP, projected."""

    def __init__(self, model: Any, side: int) -> None:
        super().__init__()
        tower = model.model.vision_tower
        self.vision = getattr(tower, "vision_model", tower)
        self.projector = model.model.multi_modal_projector
        layer = model.config.vision_feature_layer
        if not isinstance(layer, int):
            raise ExportError(f"vision_feature_layer is {layer!r}; one layer can be exported.")
        count = len(self.vision.encoder.layers)
        self.layers = layer if layer >= 0 else count + 1 + layer
        self.first = 1 if model.config.vision_feature_select_strategy == "default" else 0

    def forward(self, pixels: Tensor) -> Tensor:
        states = self.vision.embeddings(pixels)
        before = getattr(self.vision, "pre_layrnorm", None)  # the library's own spelling
        states = states if before is None else before(states)
        for layer in self.vision.encoder.layers[: self.layers]:
            states = layer(states, attention_mask=None)
        found: Tensor = self.projector(states[:, self.first :])
        return found


_VISIONS: dict[str, Any] = {
    "idefics3": ShuffledPatches,
    "smolvlm": ShuffledPatches,
    "llava": ProjectedPatches,
}


def vision_encoder(model: Any, side: int) -> nn.Module:
    """Return a model's vision encoder, which returns rows for a picture (1, 3, side, side)."""
    kind = model.config.model_type
    if kind not in _VISIONS:
        raise ExportError(
            f"the model is a {kind}; of image-text-to-text, "
            f"{', '.join((*_VISIONS, *grid_models.KINDS))} can be exported."
        )
    made: nn.Module = _VISIONS[kind](model, side)
    return made.eval()


def language_model(model: Any) -> Any:
    """Return the text half of a model, as a separate language model."""
    from transformers import AutoModelForCausalLM

    inner = model.model
    half = inner.text_model if hasattr(inner, "text_model") else inner.language_model
    with torch.device("meta"):
        made = AutoModelForCausalLM.from_config(half.config, attn_implementation="eager")
    setattr(made, made.base_model_prefix, half)
    made.set_output_embeddings(model.get_output_embeddings())
    return made.eval()


class VisionHalf:
    """The vision half of a model for pictures of a fixed size; see `GridVisionHalf`."""

    shapes = None

    def __init__(self, model: Any, folder: Path) -> None:
        side = getattr(model.config.vision_config, "image_size", None)
        if type(side) is not int:
            raise ExportError(
                f"{folder}/config.json has no vision_config.image_size that is a number."
            )
        self.module = vision_encoder(model, side)
        self.calls = [(torch.randn(1, 3, side, side, generator=_numbers(n)),) for n in range(2)]
        self.rows = self.most_rows = int(self.module(*self.calls[0]).shape[1])

    def reference(self, model: Any, prompt: Tensor) -> Tensor:
        """Return the model's logits after each token of a prompt with the first picture."""
        ((picture,), _) = self.calls
        shuffled = model.config.model_type in ("idefics3", "smolvlm")
        pixels = picture[None] if shuffled else picture
        logits: Tensor = model(input_ids=prompt, pixel_values=pixels, use_cache=False).logits
        return logits


def _prompt(model: Any, rows: int) -> Tensor:
    """Return a prompt with a picture of a number of rows."""
    image, vocabulary = model.config.image_token_id, model.config.get_text_config().vocab_size
    text = torch.randint(0, vocabulary, (1, 12), generator=_numbers(2))
    text = torch.where(text == image, (image + 1) % vocabulary, text)
    return torch.cat([text[:, :_BEFORE], torch.full((1, rows), image), text[:, _BEFORE:]], 1)


def _compare(
    decoder: Decoder, rows: Tensor, prompt: Tensor, expected: Tensor, given: tuple[Tensor, ...]
) -> None:
    """Check that the parts together give the model's logits, in several calls."""
    embed, place = decoder.model.get_input_embeddings(), 0
    end = _BEFORE + rows.shape[1]
    before = embed(prompt[:, :_BEFORE])
    try:
        for part in (before, rows, embed(prompt[:, end:-1]), embed(prompt[:, -1:])):
            logits = decoder(part, torch.tensor([place]), *given)
            place += part.shape[1]
    finally:
        decoder.clear()
    error = float((logits[0] - expected).abs().max())
    if error > _AGREE * max(1.0, float(expected.abs().max())):
        raise ExportError(
            f"the model is more than its parts: with a picture its logits differ by {error:.2g}."
        )


def _methods(
    embedding: nn.Module,
    vision: VisionHalf | GridVisionHalf,
    decoder: Decoder,
    tables: nn.Module | None,
    chunk: int,
) -> dict[str, PreparedMethod]:
    vocabulary = decoder.model.config.get_text_config().vocab_size
    length = torch.export.Dim("length", min=1, max=chunk)

    def tokens(count: int) -> Tensor:
        return torch.randint(0, vocabulary, (1, count), generator=_numbers(count))

    found = {
        "token_embedding": PreparedMethod(
            embedding, [(tokens(count),) for count in (7, 1, 3)], ({1: length},)
        ),
        "vision_encoder": PreparedMethod(vision.module, vision.calls, vision.shapes),
    }
    given: tuple[Tensor, ...] = ()
    if tables is not None and isinstance(vision, GridVisionHalf):
        positions = [vision.positions(start, decoder.context) for start in (7, 0)]
        found["rotary_tables"] = PreparedMethod(tables, [(one,) for one in positions])
        given = tables(positions[0])
    with torch.no_grad():
        parts = [embedding(tokens(7)), vision.module(*vision.calls[0])]
        parts += [embedding(tokens(count)) for count in (1, 1, 4)]
    calls, place = [], 0
    for part in parts:
        calls.append((part, torch.tensor([place]), *given))
        place += part.shape[1]
    sizes = ({1: length}, {0: 1}, *({} for _ in given))
    found["text_decoder"] = PreparedMethod(decoder, calls, sizes, rewritten)
    return found


def _metadata(model: Any, folder: Path, context: int, chunk: int) -> dict[str, Any]:
    """Return the program's constant methods, by the names of ExecuTorch's runners."""
    text = model.config.get_text_config()
    found: dict[str, Any] = {
        "get_max_seq_len": chunk,
        "get_max_context_len": context,
        "get_n_layers": text.num_hidden_layers,
        "get_vocab_size": text.vocab_size,
        "use_kv_cache": True,
        "use_sdpa_with_kv_cache": True,
        "enable_dynamic_shape": True,
    }
    config = json_table(folder / "config.json")
    tables = [json_table(folder / "generation_config.json", needed=False), config]
    if isinstance(config.content.get("text_config"), dict):
        tables.append(config.table("text_config"))
    eos, bos = (token_ids(f"{name}_token_id", *tables) for name in ("eos", "bos"))
    if eos:
        found["get_eos_ids"] = list(eos)
    if bos:
        found["get_bos_id"] = bos[0]
    return found


def _numbers(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)
