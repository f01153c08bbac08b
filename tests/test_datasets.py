from unittest.mock import Mock

import numpy as np
import pytest

from covopt.datasets import load_digit_images
from covopt.errors import InputError


def test_mnist_is_fetched_and_scaled(monkeypatch):
    import sklearn.datasets

    def fetch(name, **options):
        assert name == "mnist_784"
        labels = np.repeat(np.arange(10), 3).astype(str)
        return np.repeat(np.arange(30)[:, None], 784, axis=1) * 255 // 29, labels

    monkeypatch.setattr(sklearn.datasets, "fetch_openml", fetch)
    X, labels = load_digit_images((0, 9), 2, source="mnist")
    assert X.shape == (4, 784)
    assert X[labels == 9].min() > 0.8 > X[labels == 0].max()

    monkeypatch.setattr(sklearn.datasets, "fetch_openml", Mock(side_effect=OSError("no route to host")))
    with pytest.raises(InputError, match=r"MNIST could not be fetched from OpenML \(no route to host\)"):
        load_digit_images(source="mnist")
