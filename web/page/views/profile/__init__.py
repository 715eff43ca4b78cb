"""The profile view.

panel     messages of the page         chart    bars on rows
timeline  one run, and its tables      memory   GPU memory
pair      a run against the baseline   shorter  shorter inputs for software adapters
"""
