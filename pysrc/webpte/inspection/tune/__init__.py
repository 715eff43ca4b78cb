"""The autotuner, and the store of what it measured."""
