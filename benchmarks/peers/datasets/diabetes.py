"""scikit-learn's diabetes table, two to four features, standardised."""

from benchmark_utils.tables import sample, standardise
from benchopt import BaseDataset

from covopt.datasets import load_diabetes_table


class Dataset(BaseDataset):
    """Disease progression from its most correlated features; inputs and targets with mean 0 and variance 1."""

    name = "diabetes"
    parameters = {"n_features": [2], "n_samples": [60], "seed": [0]}

    def get_data(self):
        X, Y, _, _ = load_diabetes_table(self.n_features)
        rows = sample(len(X), self.n_samples, self.seed)
        return {"X": standardise(X[rows]), "y": standardise(Y[rows, 0])}
