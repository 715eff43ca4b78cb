"""The open program: its session, runs and history, and the state that controllers share."""
