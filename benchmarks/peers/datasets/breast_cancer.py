"""scikit-learn's breast cancer table, two to four features, standardised."""

import numpy as np
from benchmark_utils.tables import sample, standardise
from benchopt import BaseDataset
from sklearn.datasets import load_breast_cancer

FEATURES = ("mean radius", "mean texture", "mean smoothness", "mean concavity")


class Dataset(BaseDataset):
    """Benign (1) or malignant (-1) from the first features of ``FEATURES``, with mean 0 and variance 1."""

    name = "breast-cancer"
    parameters = {"n_features": [2], "n_samples": [60], "seed": [0]}

    def get_data(self):
        if not 1 <= self.n_features <= len(FEATURES):
            raise ValueError(f"n_features must be from 1 to {len(FEATURES)}; received {self.n_features}")
        table = load_breast_cancer()
        names = list(table.feature_names)
        columns = [names.index(name) for name in FEATURES[: self.n_features]]
        rows = sample(len(table.data), self.n_samples, self.seed)
        return {
            "X": standardise(table.data[np.ix_(rows, columns)]),
            "y": np.where(table.target[rows] == 1, 1.0, -1.0),
        }
