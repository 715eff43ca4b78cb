"""Host-side tooling of `serve.py`: server, set-up of the browser runtime, tests, verify.

    base/      errors, the layout of a checkout, processes, progress
    setup/     packages, Chromium, a Vulkan driver, virtual environments, the browser runtime
    serving/   the web server
    harness/   headless Chromium through Playwright, and the harness page
    models/    `serve.py models`
    site/      `serve.py build`, `docs` and `pictures`
    commands/  `serve.py test`, `verify`, `bench` and `export`

Reading order: cli, base/layout, setup/runtime, serving/server, setup/environment, harness/browser,
commands/verify. Only harness/browser and its importers need packages outside the standard library.
"""
