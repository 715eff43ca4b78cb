"""The start of Python in a browser: compiled modules of the last visit, before webpte is imported.

It is in the archive of webpte, not in its wheel, and imports nothing of it until it is imported.
"""
