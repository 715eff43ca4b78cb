"""The first view: inputs, runs and outputs, and before there is a program, the welcome.

Its sections stand in `index.html`, and the desks draw them, whether it is in front or not.
"""

from __future__ import annotations

from page.views.view import Panel, View

VIEW = View("run", "Run", order=0, make=Panel)
