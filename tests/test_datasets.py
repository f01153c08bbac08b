from unittest.mock import Mock

import numpy as np
import pytest

from covopt import datasets
from covopt.datasets import load_digit_images, make_teacher_student
from covopt.errors import InputError
from tests.cases import claims


@pytest.mark.parametrize(("claim", "holds"), claims("what holds of tables that are made", **vars(datasets)))
def test_what_holds(claim, holds):
    assert holds, claim


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


def test_the_teacher_is_positively_homogeneous():
    X, Y, teacher = make_teacher_student(100, (3, 5, 2), random_state=1, return_weights=True)
    rng = np.random.default_rng(1)
    first, second = rng.standard_normal((5, 3)) / np.sqrt(3), rng.standard_normal((2, 5)) / np.sqrt(5)
    assert np.allclose(Y, np.maximum(X @ first.T, 0) @ second.T)
    assert all(np.array_equal(a, b) for a, b in zip(teacher, (first, second), strict=True))
