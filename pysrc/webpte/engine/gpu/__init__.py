"""Devices: their protocol, a simulated device, the browser's WebGPU and Dawn in CPython.

In this package only `browser/` and `webgpu/` import `js` or `pyodide`.
"""
