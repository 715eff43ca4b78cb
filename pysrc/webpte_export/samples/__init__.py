"""The data, training and export of the programs in web/samples.

It runs on the host, with PyTorch and ExecuTorch, which `python3 serve.py export` sets up; the page
never imports it. docs/start/samples.md describes each sample and how it was trained.
"""
