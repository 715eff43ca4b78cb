"""Networks in PyTorch, and readers of other formats that build them. Only they need torch."""
