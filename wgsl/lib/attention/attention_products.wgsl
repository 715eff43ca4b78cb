// The products of attention_matrix.wgsl: of 16 queries by 32 keys, and of their weights by the values. Goes with
// lib/attention/attention_blocks.wgsl and lib/matrix/subgroup_matrix_memory.wgsl.
//
// Keys, then values, are the first STAGED pairs of shared memory; a subgroup has two pairs of its own after them. Queries were
// in the first 8 * PARTS pairs: of a subgroup, two pairs of two matrices along a round each.

fn own_pair(subgroup: u32, i: u32) -> u32 { return STAGED + subgroup * 2u + i; }

struct Queries {
    a0: KeptLeft,
    a1: KeptLeft,
    a2: KeptLeft,
    a3: KeptLeft,
    b0: KeptLeft,
    b1: KeptLeft,
    b2: KeptLeft,
    b3: KeptLeft,
}

fn queries_of(subgroup: u32) -> Queries {
    var found: Queries;
    found.a0 = kept(first_left(subgroup));
    found.a1 = kept(second_left(subgroup));
    found.a2 = kept(first_left(4u + subgroup));
    found.a3 = kept(second_left(4u + subgroup));
    if (PARTS == 2u) {
        found.b0 = kept(first_left(8u + subgroup));
        found.b1 = kept(second_left(8u + subgroup));
        found.b2 = kept(first_left(12u + subgroup));
        found.b3 = kept(second_left(12u + subgroup));
    }
    return found;
}

// Logits of 16 rows and 32 keys

struct Logits {
    s0: Sums,
    s1: Sums,
}

fn plus_two(sums: Logits, left: KeptLeft, pair: u32) -> Logits {
    var found = sums;
    found.s0 = plus_kept(found.s0, left, first_right(pair));
    found.s1 = plus_kept(found.s1, left, second_right(pair));
    return found;
}

// The small products come first, and the one of both second parts is left out.
fn plus_keys(sums: Logits, queries: Queries) -> Logits {
    var found = sums;
    if (PARTS == 2u) {
        found = plus_two(found, queries.a0, 4u);
        found = plus_two(found, queries.b0, 0u);
        found = plus_two(found, queries.a1, 5u);
        found = plus_two(found, queries.b1, 1u);
        found = plus_two(found, queries.a2, 6u);
        found = plus_two(found, queries.b2, 2u);
        found = plus_two(found, queries.a3, 7u);
        found = plus_two(found, queries.b3, 3u);
    }
    found = plus_two(found, queries.a0, 0u);
    found = plus_two(found, queries.a1, 1u);
    found = plus_two(found, queries.a2, 2u);
    return plus_two(found, queries.a3, 3u);
}

fn keys_of(queries: Queries) -> Logits {
    var none: Logits; // a variable inside of a loop is not always zero there
    return plus_keys(none, queries);
}

// Weighted values: 16 rows and 64 elements

struct Values {
    s0: Sums,
    s1: Sums,
    s2: Sums,
    s3: Sums,
}

fn plus_four(sums: Values, left: Left, pair: u32) -> Values {
    var found = sums;
    found.s0 = plus_product(found.s0, left, first_right(pair));
    found.s1 = plus_product(found.s1, left, second_right(pair));
    found.s2 = plus_product(found.s2, left, first_right(pair + 1u));
    found.s3 = plus_product(found.s3, left, second_right(pair + 1u));
    return found;
}

fn weighted_values(subgroup: u32) -> Values {
    let own = own_pair(subgroup, 0u);
    var sums: Values;
    if (PARTS == 2u) {
        sums = plus_four(sums, first_left(own), 4u);
        sums = plus_four(sums, first_left(own + 1u), 0u);
        sums = plus_four(sums, second_left(own), 6u);
        sums = plus_four(sums, second_left(own + 1u), 2u);
    }
    sums = plus_four(sums, first_left(own), 0u);
    return plus_four(sums, second_left(own), 2u);
}
