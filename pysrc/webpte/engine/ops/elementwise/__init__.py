"""Element-wise operators: an output element depends on the input elements at its place."""
