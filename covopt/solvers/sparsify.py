"""Carathéodory, where the solvers look for it."""

from covopt.sparsify.caratheodory import caratheodory

__all__ = ["caratheodory"]
