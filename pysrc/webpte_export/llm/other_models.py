"""Reads models other than Llamas, from Hugging Face folders, by the transformers library."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from webpte_export.errors import ExportError
from webpte_export.llm.huggingface import json_table, read_tokenizer_config, token_ids
from webpte_export.llm.source import Sizes, Source
from webpte_export.quantize import quantize_weights

_FIXED_LENGTH = ("dynamic", "longrope")  # rotary embeddings that depend on the length


def read_other(folder: Path) -> Source:
    """Read a language model of any architecture in the transformers library."""
    model = load_model(folder, "AutoModelForCausalLM")
    config, generation = (
        json_table(folder / f"{name}.json", needed=name == "config")
        for name in ("config", "generation_config")
    )
    text = model.config.get_text_config()
    return Source(
        name=folder.name,
        shape=Sizes(
            architecture=model.config.model_type,
            layers=text.num_hidden_layers,
            vocab_size=text.vocab_size,
            max_context=_longest(text),
        ),
        weights={},
        tokenizer=json_table(folder / "tokenizer.json").content,
        tokenizer_config=read_tokenizer_config(folder),
        bos=next(iter(token_ids("bos_token_id", generation, config)), None),
        eos=token_ids("eos_token_id", generation, config),
        model=model,
    )


def load_model(folder: Path, *kinds: str) -> Any:
    """Load a model in float32; every weight must be there, and no code of the folder is run.

    `kinds` are the library's classes of models; the first that supports the model loads it.
    """
    try:
        import torch
        import transformers

        from webpte_export.llm.mxfp4 import floats_of, is_mxfp4
    except ImportError as error:
        raise ExportError(
            f"{folder}: this architecture needs the transformers library: pip install transformers."
        ) from error
    try:
        config = transformers.AutoConfig.from_pretrained(
            folder, local_files_only=True, trust_remote_code=False
        )
        classes = [getattr(transformers, kind) for kind in kinds]
        fitting = [one for one in classes if type(config) in one._model_mapping]
        kind, stored = (fitting or classes)[0], {}
        if is_mxfp4(config) and fitting:  # the library reads these on other hardware only
            del config.quantization_config
            kind = kind._model_mapping[type(config)]
            stored = {"config": config, "state_dict": floats_of(folder)}
        model, loading = kind.from_pretrained(
            None if stored else folder,
            dtype=torch.float32,
            attn_implementation="eager",
            local_files_only=True,
            trust_remote_code=False,
            use_safetensors=True,
            output_loading_info=True,
            **stored,
        )
    except Exception as error:  # the library raises any exception
        first = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise ExportError(
            f"{folder} cannot be loaded by transformers: {first}{_of_quantized(folder)}"
        ) from error
    wrong = {**dict.fromkeys(loading["missing_keys"]), **dict.fromkeys(loading["mismatched_keys"])}
    if wrong:
        names = ", ".join(str(name) for name in list(wrong)[:3])
        raise ExportError(f"{folder} lacks {len(wrong)} of the model's weights, such as {names}.")
    return model.eval()


def _of_quantized(folder: Path) -> str:
    """Return advice for a model whose weights are quantized in a way of other runtimes."""
    given = json_table(folder / "config.json").content.get("quantization_config")
    if not isinstance(given, dict):
        return ""
    return (
        f"\nIts weights are quantized for other hardware ({given.get('quant_method')}). Export the "
        "original in float32 or bfloat16, or a GGUF file; --quantize makes 8 or 4 bits of it."
    )


def _longest(config: Any) -> int:
    """Return the most tokens for which rotary positions do not depend on a text's length."""
    longest = int(getattr(config, "max_position_embeddings", None) or 2048)
    rope = getattr(config, "rope_parameters", None) or getattr(config, "rope_scaling", None) or {}
    kinds = [rope, *(value for value in rope.values() if isinstance(value, dict))]
    for kind in kinds:
        if kind.get("rope_type") in _FIXED_LENGTH:
            original = kind.get("original_max_position_embeddings")
            original = original or getattr(config, "original_max_position_embeddings", None)
            longest = min(longest, int(original or longest))
    return longest


def quantize_decoder(decoder: Any, how: str) -> None:
    """Quantize linear layers as requested, and the embedding to 8 bits, which loses little."""
    prepare_decoder(decoder)
    quantize_weights(decoder, how)


def prepare_decoder(decoder: Any) -> None:
    """Turn all linear layers into `Linear`s, and quantize the embedding to 8 bits, in place."""
    import torch
    from transformers.pytorch_utils import Conv1D

    from webpte_export.llm.model import row_quantized_embedding

    for name, module in list(decoder.named_modules()):
        if isinstance(module, Conv1D):  # GPT-2's linear layers
            linear = torch.nn.Linear(*module.weight.shape)
            linear.weight = torch.nn.Parameter(module.weight.detach().T.contiguous())
            linear.bias = module.bias
            owner, _, last = name.rpartition(".")
            setattr(decoder.get_submodule(owner), last, linear)
    embedding = decoder.model.get_input_embeddings()
    if isinstance(embedding, torch.nn.Embedding):
        decoder.model.set_input_embeddings(row_quantized_embedding(embedding))
