"""Arithmetic whose results hold for the numbers as they are."""
