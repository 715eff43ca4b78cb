"""What is open, and its state: the session of a program, its runs and its history."""
