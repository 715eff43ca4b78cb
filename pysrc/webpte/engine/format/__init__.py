"""Readers of `.pte` and `.ptd` files and of delegate blobs."""
