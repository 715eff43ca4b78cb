// Radix select of the key at which a running total, from the largest key down, reaches a target:
// eight bits at a time, from the highest down. Every digit is a stage with a histogram of its own.
//
// A table says how much of the total each value of the digit has, among the keys that agree in the
// digits above. The stages of top-k come first and count keys by one, those of top-p by probability;
// from stage `params.first_top_p_stage` on they are top-p's.
//
// The kernel has `tables: array<atomic<u32>>`, and in its params `stages`, the number of tables of a row.

const DIGITS = 4u; // of a key
const BINS = 256u; // THREADS of lib/reduce/row_reduction.wgsl
const STAGE_WORDS = 2u * BINS + 4u; // the low words, the high words, and then the selection

struct Selection {
    prefix: u32, // the digits found, zeros after them
    remaining: vec2u, // what is left of the mark
}

var<workgroup> amounts: array<vec2u, BINS>;
var<workgroup> groups: array<vec2u, 16>;
var<workgroup> found: Selection;

fn table_start(stage: u32) -> u32 { return (row * params.stages + stage) * STAGE_WORDS; }

fn load_amount(stage: u32, bin: u32) -> vec2u {
    let at = table_start(stage) + bin;
    return vec2u(atomicLoad(&tables[at]), atomicLoad(&tables[at + BINS]));
}

fn load_selection(stage: u32) -> Selection {
    let at = table_start(stage) + 2u * BINS;
    return Selection(
        atomicLoad(&tables[at]), vec2u(atomicLoad(&tables[at + 1u]), atomicLoad(&tables[at + 2u]))
    );
}

fn store_selection(stage: u32, selection: Selection) {
    let at = table_start(stage) + 2u * BINS;
    atomicStore(&tables[at], selection.prefix);
    atomicStore(&tables[at + 1u], selection.remaining.x);
    atomicStore(&tables[at + 2u], selection.remaining.y);
}

// The mark. A setting that is off asks for more than there is, so that everything is kept.
fn target_amount(stage: u32, total: vec2u) -> vec2u {
    if (stage < params.first_top_p_stage) {
        let count = setting(1u);
        return select(vec2u(0xffffffffu), vec2u(u32(min(count, 2147483648.0)), 0u), count >= 1.0);
    }
    let share = setting(2u);
    if (!(share > 0.0 && share < 1.0)) {
        return vec2u(0xffffffffu);
    }
    let mark = scale_u64(total, u32(share * 4294967296.0));
    return select(mark, vec2u(1u, 0u), all(mark == vec2u()));
}

fn selection_before(stage: u32, total: vec2u) -> Selection {
    if (stage % DIGITS == 0u) {
        return Selection(0u, target_amount(stage, total));
    }
    return load_selection(stage - 1u);
}

fn is_reached(before: Selection, bin: u32, above: vec2u, own: vec2u) -> bool {
    let reached = bin == 0u || !is_less(add_u64(above, own), before.remaining);
    return reached && is_less(above, before.remaining);
}

fn with_digit(before: Selection, stage: u32, bin: u32, above: vec2u) -> Selection {
    let prefix = before.prefix | (bin << (24u - 8u * (stage % DIGITS)));
    return Selection(prefix, subtract_u64(before.remaining, above));
}

// Run by one thread.
fn select_digit_alone(stage: u32) -> Selection {
    var total = vec2u();
    for (var bin = 0u; bin < BINS; bin++) {
        total = add_u64(total, load_amount(stage, bin));
    }
    let before = selection_before(stage, total);
    var above = vec2u();
    var bin = BINS - 1u;
    loop {
        let own = load_amount(stage, bin);
        if (bin == 0u || is_reached(before, bin, above, own)) {
            break;
        }
        above = add_u64(above, own);
        bin--;
    }
    return with_digit(before, stage, bin, above);
}

// What the table of a stage says, for all threads: a thread to each value of the digit. All threads
// must get here together.
fn select_digit(stage: u32, place: Place) -> Selection {
    if (LANES == 1u) {
        return select_digit_alone(stage);
    }
    let bin = place.lane;
    let own = load_amount(stage, bin);
    amounts[bin] = own;
    workgroupBarrier();
    if (bin < 16u) {
        var sum = vec2u();
        for (var i = 0u; i < 16u; i++) {
            sum = add_u64(sum, amounts[bin * 16u + i]);
        }
        groups[bin] = sum;
    }
    workgroupBarrier();
    var above = vec2u();
    for (var i = bin + 1u; i % 16u != 0u; i++) {
        above = add_u64(above, amounts[i]);
    }
    var total = vec2u();
    for (var i = 0u; i < 16u; i++) {
        total = add_u64(total, groups[i]);
        if (i > bin / 16u) {
            above = add_u64(above, groups[i]);
        }
    }
    let before = selection_before(stage, total);
    if (is_reached(before, bin, above, own)) {
        found = with_digit(before, stage, bin, above);
    }
    workgroupBarrier();
    return found;
}

// The smallest key that top-k keeps, from when top-p begins.
fn top_k_threshold() -> u32 {
    if (params.first_top_p_stage == 0u) {
        return 0u;
    }
    return load_selection(params.first_top_p_stage - 1u).prefix;
}
