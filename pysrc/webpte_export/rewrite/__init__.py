"""Rewrites graphs of torch.export into operators that programs have."""
