"""Loading: from a parsed file to a schedule of GPU graphs and host kernels."""
