"""Programs of a repository that are parts of a model, by their paths."""

from __future__ import annotations

import pytest

from webpte.hub.parts import parts_of

BACKENDS = frozenset(("vulkan", "xnnpack", "webgpu"))


def parts(*paths: str) -> dict[str, str]:
    return parts_of(paths, paths[0], BACKENDS, paths.index)


@pytest.mark.parametrize(
    ("paths", "names"),
    [
        (
            ["w_mel", "w_encoder", "w_cross_kv", "w_decoder_prefill", "w_decoder_step", "w_head"],
            "cross_kv, decoder_prefill, decoder_step, encoder, head, mel",
        ),
        (["vlm_vision_q8", "vlm_prefill", "vlm_decoder"], "decoder, prefill, vision"),
        (
            ["xnnpack/sd_text_encoder_xnnpack_fp32", "xnnpack/sd_unet_xnnpack_fp32"],
            "text_encoder, unet",
        ),
        (["encoder/model", "decoder/model"], "decoder, encoder"),
        (["m_encoder_8da4w", "m_decoder_fp32"], "decoder, encoder"),
        (["duration_predictor_std", "synthesizer_std"], "duration_predictor, synthesizer"),
        (["candy_vulkan_fp16", "mosaic_vulkan_fp16"], ""),
        (["m_vulkan_fp16", "m_vulkan_int8"], ""),
        (["m_encoder_fp32", "m_encoder_int8"], ""),
        (["model"], ""),
        (["a/encoder", "b/decoder"], ""),
    ],
)
def test_names(paths: list[str], names: str) -> None:
    assert ", ".join(parts(*(f"{path}.pte" for path in paths))) == names


def test_the_preferred_of_a_name_is_taken_and_the_whole_size_first() -> None:
    found = parts("m_unet_256_fp32.pte", "m_vae_int8.pte", "m_vae_fp32.pte", "m_unet_fp32.pte")
    assert found == {"unet": "m_unet_fp32.pte", "vae": "m_vae_int8.pte"}


def test_a_program_beside_helpers_is_alone() -> None:
    assert parts("model.pte", "whisper_preprocessor.pte") == {"": "model.pte"}
    assert list(parts("encoder.pte", "decoder.pte", "w_preprocessor.pte")) == ["decoder", "encoder"]
