"""The formats of traces that can be read."""
