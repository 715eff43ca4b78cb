"""Cards: small files that say how a program is shown, and what fills its inputs."""
