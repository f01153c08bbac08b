"""All activation patterns of an instance, for the solvers that write one block of variables per pattern."""

import numpy as np

import covopt
from covopt.conic.all_cells import facets


def too_many_cells(X, bias, limit):
    """Return why the instance is too large for one program over all cells, or None."""
    n_cells = covopt.count_cells(X, bias=bias)
    return f"{n_cells} cells, more than {limit}" if n_cells > limit else None


def all_cells(X, bias):
    """Return X̃ (N, D), the patterns (S, N) and which rows bound which cells (S, N)."""
    lifted = np.column_stack([X, np.full(len(X), bias)])
    patterns = covopt.enumerate_cells(X, bias=bias).patterns
    return lifted, patterns, facets(lifted, patterns)
