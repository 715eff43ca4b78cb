"""Readers of `.pte`, `.ptd` and the Vulkan delegate blob: bytes in, frozen records out."""
