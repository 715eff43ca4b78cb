"""The sample `notes`: which note is whistled, sung or played."""
