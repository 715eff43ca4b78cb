// Rows of attention one by one, for kernels without tiles. Goes with lib/attention/attention.wgsl.

struct Row {
    batch: u32,
    head: u32,
    token: u32,
}

// `line` counts from the dispatch's first one.
fn row_of(line: u32) -> Row {
    let index = params.first_line + line;
    let heads = params.key_heads * GROUP;
    return Row(index / (heads * params.tokens), index % heads, index / heads % params.tokens);
}
