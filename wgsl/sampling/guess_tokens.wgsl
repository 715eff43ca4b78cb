// The tokens of the next round of speculative decoding: the last token, and what followed the last few tokens where the
// conversation had them before. One workgroup; the accepted tokens of the last round go to the history first.

// use lib/sampling/accepted.wgsl

override LANES: u32; // invocations: one needs no barriers, which take software adapters long to compile

const LEAST = 2u; // tokens that have to be the same
const MOST = 4u; // tokens that are compared
const LENGTH_SHIFT = 28u; // a match is its length, then its place

struct Params {
    tokens: u32, // of a round
    room: u32, // of the history
}

@group(0) @binding(0) var<storage, read> tokens: array<i32>;
@group(0) @binding(1) var<storage, read> sampled: array<i32>;
@group(0) @binding(2) var<storage, read> position: array<i32>;
@group(0) @binding(3) var<storage, read_write> history: array<i32>;
@group(0) @binding(4) var<storage, read_write> output: array<i32>;
@group(0) @binding(5) var<uniform> params: Params;

var<workgroup> best: atomic<u32>;

// How many of the tokens up to a place are those up to the last one.
fn matched(place: u32, last: u32) -> u32 {
    var length = 0u;
    while (length < MOST && length <= place && history[place - length] == history[last - length]) {
        length++;
    }
    return length;
}

@compute @workgroup_size(LANES)
fn main(@builtin(local_invocation_index) thread: u32) {
    let right = accepted();
    let next = u32(position[0] + 1); // the place of the first sampled token
    for (var i = thread; i <= right && next + i < params.room; i += LANES) {
        history[next + i] = sampled[i];
    }
    if (LANES > 1u) {
        storageBarrier();
    }
    let last = min(next + right, params.room - 1u);
    for (var place = thread; place < last; place += LANES) {
        let length = matched(place, last);
        if (length >= LEAST) {
            atomicMax(&best, (length << LENGTH_SHIFT) | place);
        }
    }
    if (LANES > 1u) {
        workgroupBarrier();
    }
    let found = atomicLoad(&best);
    let place = found & ((1u << LENGTH_SHIFT) - 1u);
    for (var i = thread; i < params.tokens; i += LANES) {
        // A copy that reaches the end goes on with what it has copied.
        let copied = place + 1u + (i - 1u) % (last - place);
        output[i] = history[select(copied, last, i == 0u || found == 0u)];
    }
}
