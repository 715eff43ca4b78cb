"""From a parsed file to something that runs: delegates on devices, methods, the public Program."""
