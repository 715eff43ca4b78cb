"""Mixtures of experts: each token uses a few experts."""
