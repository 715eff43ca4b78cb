// How far a round of speculative decoding came. Goes with kernels that declare `tokens` of the round, the tokens that were
// `sampled` after each of them, and `params.tokens`, their number.

// The number of guesses that were right, all of them before the first wrong one.
fn accepted() -> u32 {
    var count = 0u;
    while (count + 1u < params.tokens && tokens[count + 1u] == sampled[count]) {
        count++;
    }
    return count;
}
