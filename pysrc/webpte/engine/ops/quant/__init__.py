"""Quantization: rounding to int8, choosing scales, quantized embeddings."""
