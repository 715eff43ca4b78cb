"""Set-up of packages, Chromium, a Vulkan driver, virtual environments and the browser runtime."""
