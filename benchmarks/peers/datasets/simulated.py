"""Standard normal points, with standard normal targets or with noisy classes."""

import numpy as np
from benchopt import BaseDataset

from covopt.datasets import make_random_plane, make_smooth


class Dataset(BaseDataset):
    """``targets``: standard normal numbers, sin x₁ + cos x₂ (smooth), or the sign of that with noise (classes)."""

    name = "simulated"
    parameters = {
        "n_samples": [30],
        "n_features": [2],
        "targets": ["numbers", "smooth", "classes"],
        "seed": [0],
    }
    test_parameters = {"n_samples": [8]}

    def get_data(self):
        if self.targets == "numbers":
            X, y = make_random_plane(self.n_samples, self.n_features, random_state=self.seed)
            return {"X": X, "y": y}
        if self.targets not in ("smooth", "classes"):
            raise ValueError(f"targets must be 'numbers', 'smooth' or 'classes'; received {self.targets!r}")
        X, height = make_smooth(self.n_samples, self.n_features, random_state=self.seed)
        if self.targets == "smooth":
            return {"X": X, "y": height}
        noise = np.random.default_rng([self.seed, 1]).standard_normal(self.n_samples)
        height = height - np.median(height) + 0.5 * noise
        return {"X": X, "y": np.where(height > 0, 1.0, -1.0)}
