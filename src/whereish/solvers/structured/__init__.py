"""The structured solver: an interior-point method for the least-loss program."""
