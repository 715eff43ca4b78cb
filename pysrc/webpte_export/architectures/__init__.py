"""Architectures of every kind, small and with random weights: which of them export, and how they run.

    python -m webpte_export.architectures [--filter GLOB] [--json FILE] [--doc FILE] [--device D]

exports each, judges it against PyTorch, and writes a table. A new one is a row in one of the tables
beside this file.
"""
