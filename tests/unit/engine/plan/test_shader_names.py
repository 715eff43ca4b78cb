"""Every name in kernels of subgroup matrices is declared: no compiler here takes them.

They are tested with two of their files replaced, and a self-test that does not compile counts as a
fault of the GPU. So nothing else would notice a name that is gone.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from webpte_host.base.layout import ROOT

WGSL = ROOT / "wgsl"
EXTENSION = "chromium_experimental_subgroup_matrix"

WORDS = """
    alias break case const continue default else enable false fn for if let loop override return
    struct switch true var while requires diagnostic off chromium discard continuing
    array atomic bool f16 f32 i32 u32 ptr mat2x2 mat2x4 mat3x3 mat4x2 mat4x4 vec2 vec3 vec4
    vec2f vec2u vec2i vec3u vec4f vec4u vec4i
    storage uniform workgroup private function read write read_write
    group binding builtin compute workgroup_size size align id must_use
    local_invocation_index local_invocation_id global_invocation_id workgroup_id num_workgroups
    subgroup_id subgroup_invocation_id subgroup_size
    subgroups chromium_experimental_subgroup_matrix subgroup_matrix_left subgroup_matrix_right
    subgroup_matrix_result row_major col_major subgroupMatrixLoad subgroupMatrixStore
    subgroupMatrixMultiplyAccumulate
    abs acos acosh all any arrayLength asin asinh atan atan2 atanh atomicAdd atomicAnd
    atomicCompareExchangeWeak atomicExchange atomicLoad atomicMax atomicMin atomicOr atomicStore
    atomicSub bitcast ceil clamp cos cosh countLeadingZeros countOneBits countTrailingZeros cross
    degrees distance dot dot4I8Packed dot4U8Packed exp exp2 extractBits firstLeadingBit
    firstTrailingBit floor fma fract frexp insertBits inverseSqrt ldexp length log log2 max min mix
    modf normalize outerProduct pack2x16float pack2x16snorm pack2x16unorm pack4x8snorm pack4xI8
    pack4xU8 pow quantizeToF16 radians reverseBits round saturate select sign sin sinh smoothstep
    sqrt step storageBarrier tan tanh transpose trunc unpack2x16float unpack4xI8 unpack4xU8
    workgroupBarrier workgroupUniformLoad
"""
# What `ShaderLibrary` and overrides of lowerings put in.
GIVEN = {"WORKGROUP_SIZE"}
PLACE = r"\$\{\w+\}"
DECLARED = re.compile(
    r"\b(?:fn|struct|alias|const|let|override)\s+(\w+)|\bvar(?:<[^>]*>)?\s+(\w+)|(\w+)\s*:"
)


def text_of(path: Path, seen: set[Path]) -> str:
    """Return a file with all that it uses, without comments."""
    seen.add(path)
    text = path.read_text("utf-8")
    names = re.findall(r"^// use (\S+)$", text.replace("${CACHE_FORMAT}", "floats"), re.M)
    used = [one for name in names for one in sorted(WGSL.glob(re.sub(PLACE, "*", name)))]
    parts = [text_of(one, seen) for one in used if one not in seen]
    return "\n".join([*parts, re.sub(r"//.*", "", text)])


KERNELS = [
    path
    for path in sorted(WGSL.rglob("*.wgsl"))
    if "@compute" in path.read_text("utf-8") and EXTENSION in text_of(path, set())
]


def test_there_are_such_kernels() -> None:
    names = {path.relative_to(WGSL).as_posix() for path in KERNELS}
    assert {"lib/self_test/subgroup_matrix.wgsl", "attention/attention_matrix.wgsl"} < names


@pytest.mark.parametrize("path", KERNELS, ids=lambda path: path.stem)
def test_every_name_is_declared(path: Path) -> None:
    text = re.sub(rf"\w*{PLACE}(?:\w|{PLACE})*", "1", text_of(path, set()))  # of several types
    declared = {name for names in DECLARED.findall(text) for name in names if name}
    # Members and swizzles follow a dot, suffixes a digit.
    used = set(re.findall(r"(?<![\w.])[A-Za-z_]\w*", text))
    assert used - declared - set(re.findall(r"\w+", WORDS)) - GIVEN == set()
