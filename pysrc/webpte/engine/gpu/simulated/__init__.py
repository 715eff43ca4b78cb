"""A device of NumPy arrays that validates as strictly as WebGPU does, for tests."""
