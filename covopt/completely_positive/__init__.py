"""Completely positive matrices: bounds on the CP-rank, factorisations, the certificate."""
