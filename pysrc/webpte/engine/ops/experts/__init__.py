"""Mixtures of experts, of which each token uses a few."""
