"""Reductions along axes: sums, extremes, positions, variance, scans, softmax."""
