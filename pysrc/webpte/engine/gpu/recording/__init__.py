"""A device that writes the commands of a program down, for compiled programs."""
