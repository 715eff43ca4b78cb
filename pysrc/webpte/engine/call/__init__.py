"""Parts that all stages of the runtime share: options, devices, tensors, lifetimes."""
