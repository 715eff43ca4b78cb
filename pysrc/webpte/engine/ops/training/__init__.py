"""Losses and optimizer steps."""
