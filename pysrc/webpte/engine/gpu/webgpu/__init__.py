"""The browser's WebGPU: JavaScript that encodes, submits and waits, and the device in Python."""
