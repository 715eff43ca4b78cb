"""The view of speech: text of sounds, and texts read aloud."""
