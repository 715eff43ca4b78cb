"""Opening of programs: progress, questions, failures, and the card of the open file."""
