"""Processes that solve one job each."""
