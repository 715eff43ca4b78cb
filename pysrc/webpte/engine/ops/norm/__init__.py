"""Normalization: layer norm, RMS norm, group norm, batch norm."""
