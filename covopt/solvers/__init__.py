"""Solvers: they iterate and return the best points they saw; certificates judge them."""
