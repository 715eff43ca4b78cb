"""The commands `test`, `verify`, `bench` and `export`."""
