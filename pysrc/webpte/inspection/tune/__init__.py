"""The autotuner, and the store of its results."""
