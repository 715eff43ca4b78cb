"""The bench: figures of the GPU, of sample programs and of the open one, to share and to compare.

panel    the view            measure  the measurements  chart  shares of peaks
"""
