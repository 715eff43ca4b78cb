"""Tuning of kernels in the background."""
