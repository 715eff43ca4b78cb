"""Setting up: packages, Chromium, a Vulkan driver, virtual environments, the browser runtime."""
