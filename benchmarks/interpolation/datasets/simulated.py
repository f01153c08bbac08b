"""Standard normal points, with targets that are noise or smooth."""

from benchopt import BaseDataset

from covopt.datasets import make_random_plane, make_smooth

MAKERS = {"noise": make_random_plane, "smooth": make_smooth}


class Dataset(BaseDataset):
    """``targets``: standard normal numbers, the hardest to interpolate, or sin x₁ + cos x₂."""

    name = "simulated"
    parameters = {"n_samples": [20, 50, 100], "n_features": [2], "targets": ["noise", "smooth"], "seed": [0]}
    test_parameters = {"n_samples": [8], "targets": ["noise"]}

    def get_data(self):
        if self.targets not in MAKERS:
            raise ValueError(f"targets must be 'noise' or 'smooth'; received {self.targets!r}")
        X, y = MAKERS[self.targets](self.n_samples, self.n_features, random_state=self.seed)
        return {"X": X, "y": y}
