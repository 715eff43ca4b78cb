"""Architectures of every kind, small and with random weights: which of them export, and how they run.

    python -m bench.architectures [--filter GLOB] [--json FILE] [--doc FILE] [--device D]

exports each, checks it against PyTorch, and writes a table. A new one is a row in one of the tables
in this folder. `PYTHONPATH=pysrc:tests`, in the export environment.
"""
