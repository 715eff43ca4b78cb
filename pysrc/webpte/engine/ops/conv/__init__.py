"""Convolutions in one, two and three dimensions, and resampling of images."""
