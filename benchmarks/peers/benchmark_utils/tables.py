"""Sampling and standardising the rows of a table, so that every solver can use its defaults."""

import numpy as np


def sample(n_rows, n_samples, seed):
    """Return the indices of ``n_samples`` random rows in the table's order; of all rows if n_samples is None."""
    if n_samples is None or n_samples >= n_rows:
        return np.arange(n_rows)
    return np.sort(np.random.default_rng(seed).permutation(n_rows)[:n_samples])


def standardise(values):
    """Return the columns with mean 0 and variance 1."""
    return (values - values.mean(axis=0)) / values.std(axis=0)
