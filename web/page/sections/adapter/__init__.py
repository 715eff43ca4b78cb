"""The banner of the GPU adapter."""
