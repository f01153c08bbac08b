"""Coordinates of rows take little more memory than what they return."""

import tracemalloc

import numpy as np

from covopt.exact.far_rows import coordinates


def test_products_with_their_errors_are_made_in_blocks():
    """1500 points and as many neurons took a dozen arrays of 18 MB, three times a limit of .05 GiB."""
    rng = np.random.default_rng(0)
    rows, basis = rng.standard_normal((1500, 3)), rng.standard_normal((3, 1500))
    tracemalloc.start()
    try:
        found = coordinates(rows, basis)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 1.5 * found.nbytes
    assert np.allclose(found, rows @ basis, rtol=1e-12, atol=1e-12)
