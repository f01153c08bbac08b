"""Points on a line, nearly equally spaced, with standard normal targets."""

import numpy as np
from benchopt import BaseDataset


class Dataset(BaseDataset):
    """N points in [-2, 2], each moved by less than a third of the spacing."""

    name = "line"
    parameters = {"n_samples": [20], "seed": [0]}

    def get_data(self):
        rng = np.random.default_rng(self.seed)
        places, spacing = np.linspace(-2.0, 2.0, self.n_samples, retstep=True)
        X = places + spacing * rng.uniform(-0.3, 0.3, self.n_samples)
        return {"X": X[:, None], "y": rng.standard_normal(self.n_samples)}
