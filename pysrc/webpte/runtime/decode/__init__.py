"""Decoding on the GPU: the sampler behind a model, and several steps per submission."""
