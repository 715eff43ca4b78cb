"""Host-side tooling behind `serve.py`: server, set-up of the browser runtime, tests, verify.

Reading order: cli, layout, runtime (what the browser needs and where it comes from), server,
environment (the virtual environment and Chromium), browser (Playwright), verify.
Only `browser` and what imports it need packages outside the standard library.
"""
