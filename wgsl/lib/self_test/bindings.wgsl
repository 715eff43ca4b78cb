// The uniform block of all kernels of the self-test.

struct Params {
    seed: u32, // goes into every result, so that none can be a leftover
}
