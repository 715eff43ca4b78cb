"""Devices: the protocol, the recording one for tests, and WebGPU.

Only this folder imports `js` or `pyodide`, and only inside `webgpu.py` and `blob.py`.
"""
