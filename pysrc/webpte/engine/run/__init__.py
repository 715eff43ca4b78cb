"""Execution of a delegate: plan selection, input packing, submission, outputs."""
