// lib/elements.wgsl for f16: stored as f16, computed as f32.

alias word_f16 = f16;

const per_word_f16 = 1u;

fn pick_f16(word: f16, element: u32) -> f32 { return f32(word); }
