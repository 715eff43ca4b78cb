"""The first view: inputs, runs and outputs, or a welcome while no program is open.

The sections of the view are in `index.html`; the controllers draw them, also behind other views.
"""

from __future__ import annotations

from page.views.view import Panel, View

VIEW = View("run", "Run", order=0, make=Panel, follows=())
