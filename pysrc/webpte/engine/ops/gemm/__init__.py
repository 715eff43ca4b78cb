"""Matrix multiplication: GEMM tiles, GEMV, 4-bit weights, prologues and epilogues."""
