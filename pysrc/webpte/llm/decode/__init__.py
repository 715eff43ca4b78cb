"""Decoding on the GPU: the sampler after a model, and several steps per submission."""
