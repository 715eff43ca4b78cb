"""The sample `notes`: detects the note that is whistled, sung or played."""
