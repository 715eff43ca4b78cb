"""XNNPACK's numbers: how its nodes on bytes compute."""
