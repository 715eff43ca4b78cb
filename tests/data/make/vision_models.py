"""Small random models of pictures, as folders of Hugging Face; `task_models.py` writes them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch

from webpte_export.exporter_patches import hide_broken_torchvision

hide_broken_torchvision()
import transformers as tf  # noqa: E402 - after the broken package is hidden

WIDTH = 16  # of hidden states
THINGS = ("cup", "dog", "door")


def labels(*names: str) -> dict[str, Any]:
    return {
        "id2label": dict(enumerate(names)),
        "label2id": {name: number for number, name in enumerate(names)},
    }


def preprocessing(kind: str, **settings: Any) -> Any:
    """Return a function that writes the preprocessing of pictures into a folder."""
    content = {
        "image_processor_type": f"{kind}ImageProcessor",
        "do_resize": True,
        "do_rescale": True,
        "rescale_factor": 1 / 255,
        "do_normalize": True,
        "image_mean": [0.48, 0.45, 0.4],
        "image_std": [0.27, 0.26, 0.28],
        **settings,
    }
    return preprocessor_file(content)


def preprocessor_file(content: dict[str, Any]) -> Any:
    """Return a function that writes a preprocessor_config.json into a folder."""

    def write_settings(folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        text = json.dumps(content, indent=1)
        (folder / "preprocessor_config.json").write_text(text + "\n")

    return write_settings


def sized(height: int, width: int) -> dict[str, Any]:
    return {"size": {"height": height, "width": width}}


def spread(model: Any, seed: int, scale: float = 1.0) -> Any:
    """Give a model weights with which its results differ from picture to picture."""
    numbers = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, weights in model.named_parameters():
            noise = torch.randn(weights.shape, generator=numbers)
            if weights.ndim < 2:
                weights.copy_((1 if "norm" in name and "weight" in name else 0) + noise / 4)
            elif any(part in name for part in ("token", "position", "query", "embed")):
                weights.copy_(noise / 2)
            else:
                weights.copy_(noise * scale / weights[0].numel() ** 0.5)
            if weights.shape == (1,):  # of a depth, which must be above 0 to be seen
                weights.fill_(2.0)
    return model


def calmer(model: Any) -> Any:
    """Make the scores of OWL-ViT less sure, so that they differ."""
    with torch.no_grad():
        for layer in (model.class_head.logit_shift, model.class_head.logit_scale):
            layer.weight.mul_(0.25)
            layer.bias.fill_(-0.5)
    return model


def vision_models(word_pieces: Any, byte_pairs: Any) -> dict[str, tuple[str, Any, Any]]:
    """Return the task of each model, a function that writes its preprocessing, and the model.

    word_pieces, byte_pairs   write the tokenizers of models that also read texts into a folder
    """
    matched = matchers(word_pieces, byte_pairs)
    return {**detectors(), **depths(), **segmenters(), **matched, **makers()}


def detectors() -> dict[str, tuple[str, Any, Any]]:
    task, named = "object-detection", labels(*THINGS)
    yolos = tf.YolosConfig(
        hidden_size=WIDTH,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=WIDTH,
        image_size=[16, 24],
        patch_size=8,
        num_detection_tokens=5,
        **named,
    )
    backbone = tf.ResNetConfig(
        embedding_size=8, hidden_sizes=[8], depths=[1], layer_type="basic", out_features=["stage1"]
    )
    queries = {
        "use_timm_backbone": False,
        "use_pretrained_backbone": False,
        "backbone": None,
        "backbone_config": backbone,
        "d_model": WIDTH,
        "encoder_layers": 1,
        "decoder_layers": 1,
        "encoder_attention_heads": 2,
        "decoder_attention_heads": 2,
        "encoder_ffn_dim": WIDTH,
        "decoder_ffn_dim": WIDTH,
        "num_queries": 6,
        **named,
    }
    detr = tf.DetrForObjectDetection(tf.DetrConfig(**queries))
    conditional = tf.ConditionalDetrForObjectDetection(tf.ConditionalDetrConfig(**queries))
    stages = tf.RTDetrResNetConfig(
        embedding_size=8,
        hidden_sizes=[8, 8],
        depths=[1, 1],
        layer_type="basic",
        out_features=["stage1", "stage2"],
    )
    real_time = tf.RTDetrConfig(
        backbone_config=stages,
        encoder_hidden_dim=WIDTH,
        encoder_in_channels=[8, 8],
        feat_strides=[4, 8],
        encode_proj_layers=[1],
        encoder_ffn_dim=WIDTH,
        encoder_attention_heads=2,
        d_model=WIDTH,
        num_queries=5,
        num_feature_levels=2,
        decoder_in_channels=[WIDTH, WIDTH],
        decoder_ffn_dim=WIDTH,
        decoder_layers=1,
        decoder_attention_heads=2,
        decoder_n_points=2,
        hidden_expansion=0.5,
        num_denoising=0,
        disable_custom_kernels=True,
        **named,
    )
    return {
        "instants": (
            task,
            preprocessing("RTDetr", **sized(32, 32), do_normalize=False),
            spread(tf.RTDetrForObjectDetection(real_time), 13),
        ),
        "things": (
            task,
            preprocessing("Yolos", **sized(16, 24), do_pad=True),
            spread(tf.YolosForObjectDetection(yolos), 1),
        ),
        "queries": (
            task,
            preprocessing("Detr", **sized(24, 16), do_pad=True, pad_size=None),
            spread(detr, 2),
        ),
        "conditions": (
            task,
            preprocessing("ConditionalDetr", **sized(16, 16)),
            spread(conditional, 3),
        ),
    }


def depths() -> dict[str, tuple[str, Any, Any]]:
    task = "depth-estimation"
    head = {"neck_hidden_sizes": [4, 4, 8, 8], "fusion_hidden_size": 4}
    head |= {"reassemble_factors": [4, 2, 1, 0.5]}
    dpt = tf.DPTConfig(
        hidden_size=WIDTH,
        num_hidden_layers=4,
        num_attention_heads=2,
        intermediate_size=WIDTH,
        image_size=16,
        patch_size=8,
        backbone_out_indices=[0, 1, 2, 3],
        is_hybrid=False,
        **head,
    )
    backbone = tf.Dinov2Config(
        hidden_size=WIDTH,
        num_hidden_layers=4,
        num_attention_heads=2,
        mlp_ratio=1,
        image_size=14,
        patch_size=7,
        out_indices=[1, 2, 3, 4],
        reshape_hidden_states=False,
        apply_layernorm=True,
    )
    anything = tf.DepthAnythingConfig(
        backbone_config=backbone,
        patch_size=7,
        reassemble_hidden_size=WIDTH,
        head_hidden_size=4,
        **head,
    )
    return {
        "depths": (
            task,
            preprocessing("DPT", **sized(16, 16), resample=3, keep_aspect_ratio=False),
            spread(tf.DPTForDepthEstimation(dpt), 4),
        ),
        "distances": (
            task,
            preprocessing("DPT", **sized(14, 28), ensure_multiple_of=14, keep_aspect_ratio=False),
            spread(tf.DepthAnythingForDepthEstimation(anything), 5),
        ),
    }


def segmenters() -> dict[str, tuple[str, Any, Any]]:
    segformer = tf.SegformerConfig(
        num_encoder_blocks=2,
        depths=[1, 1],
        sr_ratios=[2, 1],
        hidden_sizes=[8, 16],
        patch_sizes=[7, 3],
        strides=[4, 2],
        num_attention_heads=[1, 2],
        mlp_ratios=[2, 2],
        decoder_hidden_size=WIDTH,
        **labels("sky", "wall", "road", "tree", "sea"),
    )
    sam = tf.SamConfig(
        vision_config={
            "hidden_size": WIDTH,
            "num_hidden_layers": 2,
            "num_attention_heads": 2,
            "mlp_dim": WIDTH,
            "image_size": 32,
            "patch_size": 4,
            "window_size": 3,
            "global_attn_indexes": [1],
            "output_channels": WIDTH,
            "num_pos_feats": WIDTH // 2,
        },
        prompt_encoder_config={
            "hidden_size": WIDTH,
            "image_size": 32,
            "patch_size": 4,
            "mask_input_channels": 4,
        },
        mask_decoder_config={
            "hidden_size": WIDTH,
            "mlp_dim": WIDTH,
            "num_hidden_layers": 1,
            "num_attention_heads": 2,
            "iou_head_depth": 2,
            "iou_head_hidden_dim": WIDTH,
        },
    )
    padded = {"size": {"longest_edge": 32}, "do_pad": True, "pad_size": {"height": 32, "width": 32}}
    masks = {"mask_size": {"longest_edge": 8}, "mask_pad_size": {"height": 8, "width": 8}}
    return {
        "scenes": (
            "image-segmentation",
            preprocessing("Segformer", **sized(32, 24)),
            spread(tf.SegformerForSemanticSegmentation(segformer), 22, 3.0),
        ),
        "prompts": (
            "mask-generation",
            preprocessing("Sam", **padded, **masks),
            spread(tf.SamModel(sam), 7),
        ),
    }


def matchers(word_pieces: Any, byte_pairs: Any) -> dict[str, tuple[str, Any, Any]]:
    half = {
        "hidden_size": WIDTH,
        "num_hidden_layers": 1,
        "num_attention_heads": 2,
        "intermediate_size": WIDTH,
    }
    words = {**half, "vocab_size": 200, "pad_token_id": 0, "bos_token_id": 2, "eos_token_id": 3}
    pairs = {**half, "vocab_size": 400, "pad_token_id": 1, "bos_token_id": 0, "eos_token_id": 2}
    pictures = {**half, "image_size": 16, "patch_size": 8}
    clip = tf.CLIPConfig(
        text_config={**words, "max_position_embeddings": 24},
        vision_config=pictures,
        projection_dim=WIDTH,
    )
    siglip = tf.SiglipConfig(
        text_config={**pairs, "max_position_embeddings": 64}, vision_config=pictures
    )

    def both(prepare: Any, write_tokenizer: Any, *names: str) -> Any:
        def write_all(folder: Path) -> None:
            write_tokenizer(folder)
            prepare(folder)
            config = folder / "tokenizer_config.json"
            content = json.loads(config.read_text()) | {"model_input_names": names}
            config.write_text(json.dumps(content, indent=1) + "\n")

        return write_all

    owl = tf.OwlViTConfig(
        text_config={**words, "max_position_embeddings": 16},
        vision_config=pictures,
        projection_dim=WIDTH,
    )
    task = "zero-shot-image-classification"
    cropped = {"do_center_crop": True, "crop_size": {"height": 16, "width": 16}}
    return {
        "captions": (
            task,
            both(
                preprocessing("CLIP", size={"shortest_edge": 16}, **cropped, resample=3),
                *(word_pieces, "input_ids", "attention_mask"),
            ),
            spread(tf.CLIPModel(clip), 8),
        ),
        "sentences": (
            task,
            both(preprocessing("Siglip", **sized(16, 16)), byte_pairs, "input_ids"),
            spread(tf.SiglipModel(siglip), 9),
        ),
        "finds": (
            "zero-shot-object-detection",
            both(
                preprocessing("OwlViT", **sized(16, 16), resample=3),
                *(word_pieces, "input_ids", "attention_mask"),
            ),
            calmer(spread(tf.OwlViTForObjectDetection(owl), 12)),
        ),
    }


def makers() -> dict[str, tuple[str, Any, Any]]:
    """Return models that make pictures."""
    larger = tf.Swin2SRConfig(
        image_size=16,
        patch_size=1,
        embed_dim=8,
        depths=[2],
        num_heads=[2],
        window_size=4,
        mlp_ratio=1.0,
        upscale=2,
        upsampler="pixelshuffledirect",
    )
    front = tf.SegformerConfig(
        num_encoder_blocks=1,
        depths=[1],
        sr_ratios=[2],
        hidden_sizes=[8],
        patch_sizes=[7],
        strides=[4],
        num_attention_heads=[1],
        mlp_ratios=[2],
        decoder_hidden_size=8,
        num_labels=1,
    )
    free = {
        "image_processor_type": "Swin2SRImageProcessor",
        "do_rescale": True,
        "rescale_factor": 1 / 255,
        "do_pad": True,
        "pad_size": 8,
    }
    return {
        "enlarged": (
            "image-to-image",
            preprocessor_file(free),
            spread(tf.Swin2SRForImageSuperResolution(larger), 10),
        ),
        "cutouts": (
            "background-removal",
            preprocessing("Segformer", **sized(16, 24)),
            spread(tf.SegformerForSemanticSegmentation(front), 23, 2.0),
        ),
    }
