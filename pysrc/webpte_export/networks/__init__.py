"""Networks in PyTorch, and readers of other formats that build them. Only these need torch."""
