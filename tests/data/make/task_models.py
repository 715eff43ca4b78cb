"""Small random models of several tasks, as folders of Hugging Face; `make_tasks.py` writes them."""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors
from tokenizers.trainers import BpeTrainer

from data.make.make_tokenizers import CORPUS
from data.make.vision_models import labels, preprocessing, preprocessor_file, vision_models
from support.harness.sounds import SPELLED
from webpte_export.exporter_patches import hide_broken_torchvision

hide_broken_torchvision()
import transformers  # noqa: E402 - after the broken package is hidden

__all__ = ["DISTIL", "labels", "make_models", "transformers", "word_pieces"]

VOCABULARY, LENGTH = 200, 64
BERT_TOKENS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
ROBERTA_TOKENS = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
SMALL = {
    "vocab_size": VOCABULARY,
    "hidden_size": 16,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "intermediate_size": 16,
    "initializer_range": 0.5,
}
BERT = {**SMALL, "max_position_embeddings": LENGTH}
ROBERTA = {**SMALL, "max_position_embeddings": LENGTH + 2, "type_vocab_size": 1}
DISTIL = {
    "vocab_size": VOCABULARY,
    "dim": 16,
    "n_layers": 1,
    "n_heads": 2,
    "hidden_dim": 16,
    "max_position_embeddings": LENGTH,
    "initializer_range": 0.5,
}


def word_pieces(folder: Path) -> None:
    """Write a tokenizer as BERT's."""
    vocabulary = {token: number for number, token in enumerate(_pieces())}
    made = Tokenizer(models.WordPiece(vocabulary, unk_token="[UNK]"))
    made.add_special_tokens(BERT_TOKENS)
    made.normalizer = normalizers.BertNormalizer(lowercase=True)
    made.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    made.decoder = decoders.WordPiece()
    made.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[(name, made.token_to_id(name)) for name in ("[CLS]", "[SEP]")],
    )
    names = dict(zip(("pad", "unk", "cls", "sep", "mask"), BERT_TOKENS, strict=True))
    write(folder, made, names, "BertTokenizer")


def _pieces() -> list[str]:
    """Return letters, ends of words and the most frequent words.

    The package's trainer chooses among equally frequent ones as it likes, each time anew.
    """
    words = re.findall(r"[a-z]+|[^\sa-z]", " ".join(CORPUS).lower())
    letters = sorted({letter for word in words for letter in word if letter.isascii()})
    ends = Counter(word[-2:] for word in words if len(word) > 3)
    found = [*letters, *(f"##{letter}" for letter in letters if letter.isalnum())]
    found += [f"##{end}" for end, _ in sorted(ends.items(), key=_by_count)[:20]]
    counts = Counter(word for word in words if len(word) > 1)
    found += [word for word, _ in sorted(counts.items(), key=_by_count)]
    return [*BERT_TOKENS, *found][:VOCABULARY]


def _by_count(item: tuple[str, int]) -> tuple[int, str]:
    return -item[1], item[0]


def byte_pairs(folder: Path) -> None:
    """Write a tokenizer as RoBERTa's."""
    made = Tokenizer(models.BPE())
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    trainer = BpeTrainer(
        vocab_size=VOCABULARY + 200,
        special_tokens=ROBERTA_TOKENS,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    made.train_from_iterator(CORPUS, trainer)
    made.post_processor = processors.RobertaProcessing(
        ("</s>", ROBERTA_TOKENS.index("</s>")),
        ("<s>", ROBERTA_TOKENS.index("<s>")),
        add_prefix_space=False,
    )
    names = {"bos": "<s>", "eos": "</s>", "cls": "<s>", "sep": "</s>"}
    names |= {"pad": "<pad>", "unk": "<unk>", "mask": "<mask>"}
    write(folder, made, names, "RobertaTokenizer")


def write(folder: Path, made: Tokenizer, names: dict[str, str], kind: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    made.save(str(folder / "tokenizer.json"))
    config: dict[str, Any] = {f"{role}_token": token for role, token in names.items()}
    config |= {"model_max_length": LENGTH, "tokenizer_class": kind}
    (folder / "tokenizer_config.json").write_text(json.dumps(config, indent=1) + "\n")


def save(model: Any, folder: Path) -> None:
    """Write a model with weights that have few digits, so that archives of them are small."""
    with torch.no_grad():
        for weights in model.parameters():
            weights.copy_((weights * 16).round() / 16)
    model.save_pretrained(folder)


def make_models(root: Path) -> dict[str, str]:
    """Write every model; return the task that each is exported for."""
    tf = transformers
    words, pairs = {"pad_token_id": 0}, {"pad_token_id": 1, "bos_token_id": 0, "eos_token_id": 2}
    large = {**ROBERTA, "vocab_size": VOCABULARY + 200}
    feelings = labels("sad", "calm", "glad")
    entities = labels("O", "B-PER", "I-PER", "B-LOC", "I-LOC")
    verdicts = labels("contradiction", "neutral", "entailment")
    made: dict[str, tuple[str, Any, Any]] = {
        "feelings": (
            "text-classification",
            word_pieces,
            tf.DistilBertForSequenceClassification(
                tf.DistilBertConfig(**DISTIL, **words, **feelings)
            ),
        ),
        "verdicts": (
            "zero-shot-classification",
            word_pieces,
            tf.BertForSequenceClassification(tf.BertConfig(**BERT, **words, **verdicts)),
        ),
        "entities": (
            "token-classification",
            word_pieces,
            tf.BertForTokenClassification(tf.BertConfig(**BERT, **words, **entities)),
        ),
        "byte-entities": (
            "token-classification",
            byte_pairs,
            tf.RobertaForTokenClassification(tf.RobertaConfig(**large, **pairs, **entities)),
        ),
        "answers": (
            "question-answering",
            word_pieces,
            tf.BertForQuestionAnswering(tf.BertConfig(**BERT, **words)),
        ),
        "byte-answers": (
            "question-answering",
            byte_pairs,
            tf.RobertaForQuestionAnswering(tf.RobertaConfig(**large, **pairs)),
        ),
        "gaps": (
            "fill-mask",
            word_pieces,
            tf.BertForMaskedLM(tf.BertConfig(**BERT, **words)),
        ),
        "ranks": (
            "reranking",
            byte_pairs,
            tf.RobertaForSequenceClassification(
                tf.RobertaConfig(**large, **pairs, **labels("LABEL_0"))
            ),
        ),
        "vectors": (
            "feature-extraction",
            byte_pairs,
            tf.RobertaModel(tf.RobertaConfig(**large, **pairs), add_pooling_layer=False),
        ),
    }
    shapes = labels("round", "square", "flat", "long", "none", "both", "other")
    vit = {key: SMALL[key] for key in SMALL if key != "vocab_size"}
    vit |= {"image_size": 16, "patch_size": 4}
    sized = {"height": 16, "width": 16}
    made |= {
        "shapes": (
            "image-classification",
            preprocessing("ViT", size=sized, resample=2),
            tf.ViTForImageClassification(tf.ViTConfig(**vit, **shapes)),
        ),
        "patches": (
            "image-feature-extraction",
            preprocessing(
                "CLIP",
                size={"shortest_edge": 20},
                do_center_crop=True,
                crop_size=sized,
                resample=3,
            ),
            tf.ViTModel(tf.ViTConfig(**vit), add_pooling_layer=False),
        ),
        "textures": (
            "image-classification",
            preprocessing("ConvNext", size={"shortest_edge": 32}, crop_pct=0.875, resample=3),
            tf.ResNetForImageClassification(
                tf.ResNetConfig(
                    embedding_size=8,
                    hidden_sizes=[8, 16],
                    depths=[1, 1],
                    layer_type="basic",
                    **labels("smooth", "rough"),
                )
            ),
        ),
    }
    spectrograms = {"num_mel_bins": 16, "max_length": 24}
    made["noises"] = (
        "audio-classification",
        preprocessor_file(
            {
                "feature_extractor_type": "ASTFeatureExtractor",
                "sampling_rate": 16_000,
                "feature_size": 1,
                "padding_value": 0.0,
                "do_normalize": True,
                "mean": -4.5,
                "std": 4.25,
                **spectrograms,
            }
        ),
        tf.ASTForAudioClassification(
            tf.ASTConfig(
                **{key: SMALL[key] for key in SMALL if key != "vocab_size"},
                **spectrograms,
                patch_size=4,
                frequency_stride=4,
                time_stride=4,
                **shapes,
            )
        ),
    )
    made |= vision_models(word_pieces, byte_pairs)
    for name, (_, prepare, model) in made.items():
        prepare(root / name)
        save(model.eval(), root / name)
    return {name: task for name, (task, _, _) in made.items()}


SPELLER = {
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 48,
    "conv_dim": (16, 16, 16),
    "conv_kernel": (10, 3, 3),
    "conv_stride": (5, 8, 8),
    "num_feat_extract_layers": 3,
    "num_conv_pos_embeddings": 8,
    "num_conv_pos_embedding_groups": 2,
    "vocab_size": len(SPELLED),
}


def speller(folder: Path) -> Any:
    """Make a folder of a wav2vec 2.0 that hears letters; return the model."""
    model = transformers.Wav2Vec2ForCTC(transformers.Wav2Vec2Config(**SPELLER)).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(3)  # so that frames differ
    save(model, folder)
    tables = {
        "vocab": {letter: number for number, letter in enumerate(SPELLED)},
        "tokenizer_config": {"pad_token": "<pad>", "word_delimiter_token": "|"},
        "preprocessor_config": {"sampling_rate": 16_000, "do_normalize": True},
    }
    for name, content in tables.items():
        (folder / f"{name}.json").write_text(json.dumps(content) + "\n")
    return model
