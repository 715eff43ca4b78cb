"""Pictures brought to the sizes and numbers that models take, in NumPy or on a GPU."""
