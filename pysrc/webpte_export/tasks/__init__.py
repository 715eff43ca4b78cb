"""Models of Hugging Face's tasks: from folders to programs for `webpte.tasks`."""

from __future__ import annotations

from webpte_export.tasks.export import export_task

__all__ = ["export_task"]
