"""The sampler on the GPU: draws tokens, and computes log-probabilities of the best tokens."""
