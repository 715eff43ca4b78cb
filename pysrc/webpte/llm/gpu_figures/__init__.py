"""Figures of a GPU: its peaks, and layers of known models beside them, with nothing to download.

measure  all figures  peaks   arithmetic, memory, dispatches
layers   the models   result  figures as JSON and as a link
"""
