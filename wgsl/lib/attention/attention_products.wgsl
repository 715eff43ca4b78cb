// The products of attention_matrix.wgsl: of 16 queries by 32 keys, and of their weights by the values. Goes with
// lib/attention/attention_blocks.wgsl and lib/matrix/matrices_whole.wgsl.
//
// Keys, then values, are the first STAGED pairs of shared memory; a subgroup has two pairs of its own after them. Queries were
// in the first 8 * PARTS pairs: of a subgroup, two pairs of two matrices along a round each.

fn own_pair(subgroup: u32, i: u32) -> u32 { return STAGED + subgroup * 2u + i; }

struct Queries {
    a0: RegisterA,
    a1: RegisterA,
    a2: RegisterA,
    a3: RegisterA,
    b0: RegisterA,
    b1: RegisterA,
    b2: RegisterA,
    b3: RegisterA,
}

fn queries_of(subgroup: u32) -> Queries {
    var found: Queries;
    found.a0 = to_registers(load_first_a(subgroup));
    found.a1 = to_registers(load_second_a(subgroup));
    found.a2 = to_registers(load_first_a(4u + subgroup));
    found.a3 = to_registers(load_second_a(4u + subgroup));
    if (PARTS == 2u) {
        found.b0 = to_registers(load_first_a(8u + subgroup));
        found.b1 = to_registers(load_second_a(8u + subgroup));
        found.b2 = to_registers(load_first_a(12u + subgroup));
        found.b3 = to_registers(load_second_a(12u + subgroup));
    }
    return found;
}

// Logits of 16 rows and 32 keys

struct Logits {
    s0: Accumulator,
    s1: Accumulator,
}

fn mma_key_pair(sums: Logits, left: RegisterA, pair: u32) -> Logits {
    var found = sums;
    found.s0 = mma_registers(found.s0, left, load_first_b(pair));
    found.s1 = mma_registers(found.s1, left, load_second_b(pair));
    return found;
}

// The small products come first, and the one of both second parts is left out.
fn accumulate_logits(sums: Logits, queries: Queries) -> Logits {
    var found = sums;
    if (PARTS == 2u) {
        found = mma_key_pair(found, queries.a0, 4u);
        found = mma_key_pair(found, queries.b0, 0u);
        found = mma_key_pair(found, queries.a1, 5u);
        found = mma_key_pair(found, queries.b1, 1u);
        found = mma_key_pair(found, queries.a2, 6u);
        found = mma_key_pair(found, queries.b2, 2u);
        found = mma_key_pair(found, queries.a3, 7u);
        found = mma_key_pair(found, queries.b3, 3u);
    }
    found = mma_key_pair(found, queries.a0, 0u);
    found = mma_key_pair(found, queries.a1, 1u);
    found = mma_key_pair(found, queries.a2, 2u);
    return mma_key_pair(found, queries.a3, 3u);
}

fn logits_of(queries: Queries) -> Logits {
    var none: Logits; // a variable inside of a loop is not always zero there
    return accumulate_logits(none, queries);
}

// Weighted values: 16 rows and 64 elements

struct Values {
    s0: Accumulator,
    s1: Accumulator,
    s2: Accumulator,
    s3: Accumulator,
}

fn mma_value_columns(sums: Values, left: FragmentA, pair: u32) -> Values {
    var found = sums;
    found.s0 = mma(found.s0, left, load_first_b(pair));
    found.s1 = mma(found.s1, left, load_second_b(pair));
    found.s2 = mma(found.s2, left, load_first_b(pair + 1u));
    found.s3 = mma(found.s3, left, load_second_b(pair + 1u));
    return found;
}

fn weighted_values(subgroup: u32) -> Values {
    let own = own_pair(subgroup, 0u);
    var sums: Values;
    if (PARTS == 2u) {
        sums = mma_value_columns(sums, load_first_a(own), 4u);
        sums = mma_value_columns(sums, load_first_a(own + 1u), 0u);
        sums = mma_value_columns(sums, load_second_a(own), 6u);
        sums = mma_value_columns(sums, load_second_a(own + 1u), 2u);
    }
    sums = mma_value_columns(sums, load_first_a(own), 0u);
    return mma_value_columns(sums, load_second_a(own), 2u);
}
