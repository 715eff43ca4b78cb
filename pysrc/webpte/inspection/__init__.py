"""Looking into a program: traces, comparisons with NumPy, memory."""
