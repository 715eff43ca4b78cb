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
