"""A script with which a test can take the GPU away from the page."""

from __future__ import annotations

# In the worker that Python runs in, before it asks for its first device.
KEEP_DEVICES = """
const { requestDevice } = GPUAdapter.prototype;
globalThis.devices = [];
GPUAdapter.prototype.requestDevice = async function (...args) {
  const device = await requestDevice.apply(this, args);
  devices.push(device);
  return device;
};
"""

# Destroys the last of these devices when its results are read for the `reads`-th time from now on.
LOSE_DEVICE = """(reads) => {
  const read = GPUBuffer.prototype.mapAsync;
  GPUBuffer.prototype.mapAsync = function (...range) {
    reads -= 1;
    if (reads === 0) devices.at(-1).destroy();
    return read.apply(this, range);
  };
}"""
