"""Scripts with which a test can take the GPU away from the page."""

from __future__ import annotations

# In the worker that Python runs in: collects the devices that are used from now on.
KEEP_DEVICES = """() => {
  const { createCommandEncoder } = GPUDevice.prototype;
  globalThis.devices = [];
  GPUDevice.prototype.createCommandEncoder = function (...args) {
    if (!devices.includes(this)) devices.push(this);
    return createCommandEncoder.apply(this, args);
  };
}"""

# Destroys the last of these devices when its results are read for the `reads`-th time from now on.
LOSE_DEVICE = """(reads) => {
  const read = GPUBuffer.prototype.mapAsync;
  GPUBuffer.prototype.mapAsync = function (...range) {
    reads -= 1;
    if (reads === 0) devices.at(-1).destroy();
    return read.apply(this, range);
  };
}"""
