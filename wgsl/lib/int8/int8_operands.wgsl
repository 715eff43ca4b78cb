// The operands of element-wise kernels on bytes: a word of four elements, broadcast along the axes of
// the output. Goes with lib/quads.wgsl and lib/axes.wgsl.
//
// Bindings: `x_words`, `y_words`, and params with rank and axes.

override HAS_Y: bool;
// Whether an operand has the output's layout; otherwise it is read through the axes.
override X_FLAT: bool;
override Y_FLAT: bool;
override X_UNSIGNED = false;
override Y_UNSIGNED = false;

struct Operands {
    x: vec4<i32>,
    y: vec4<i32>,
}

fn numbers_of(word: u32, is_unsigned: bool) -> vec4<i32> {
    if (is_unsigned) {
        return vec4<i32>(bytes_of(word));
    }
    return signed_bytes_of(word);
}

fn operands_at(word: u32) -> Operands {
    var found = Operands();
    if (!X_FLAT || !Y_FLAT) {
        var axes = params.axes;
        for (var lane = 0u; lane < 4u; lane++) {
            let at = strided_offsets(word * 4u + lane, params.rank, &axes);
            found.x[lane] = numbers_of(x_words[at.x / 4u], X_UNSIGNED)[at.x % 4u];
            if (HAS_Y) {
                found.y[lane] = numbers_of(y_words[at.y / 4u], Y_UNSIGNED)[at.y % 4u];
            }
        }
    }
    if (X_FLAT) {
        found.x = numbers_of(x_words[word], X_UNSIGNED);
    }
    if (HAS_Y && Y_FLAT) {
        found.y = numbers_of(y_words[word], Y_UNSIGNED);
    }
    return found;
}
