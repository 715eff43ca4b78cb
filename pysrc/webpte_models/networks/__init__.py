"""Networks in PyTorch, and readers of other formats that make one. Only these need torch."""
