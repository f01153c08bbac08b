"""Completely positive matrices: bounds on the CP-rank, nonnegative factorisations and certificates."""
