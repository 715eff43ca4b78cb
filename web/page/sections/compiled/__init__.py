"""Compiled programs that are dropped: their dispatches are shown in the view Graph."""
