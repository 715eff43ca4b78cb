"""The sampler on the GPU: drawing a token, log-probabilities of the best."""
