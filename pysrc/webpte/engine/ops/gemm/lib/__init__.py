"""Parts that GEMM kernels share: the counterparts of wgsl/lib/gemm."""
