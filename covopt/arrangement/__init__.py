"""Activation cells of a table of points: counting, enumerating, naming them."""
