"""Element-wise operators: an output element depends on the inputs' elements at its place."""
