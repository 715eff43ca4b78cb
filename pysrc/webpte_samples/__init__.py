"""The programs in web/samples, made from nothing but this project: data, training and export.

The host's side: it needs PyTorch and ExecuTorch, which `python3 serve.py export` sets up, and is
never imported by the page. docs/samples.md tells what each sample is and how it was made.
"""
