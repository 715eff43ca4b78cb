"""The outputs of the last run."""
