from unittest.mock import Mock

import numpy as np
import pytest

from covopt.datasets import (
    load_diabetes_table,
    load_digit_images,
    make_random_plane,
    make_smooth,
    make_teacher_student,
)
from covopt.errors import InputError


def test_diabetes_rows_are_distinct():
    X, Y, features, targets = load_diabetes_table()
    assert (X.shape, Y.shape) == ((432, 2), (432, 1))
    assert (features, targets) == (("bmi", "s5"), ("progression",))
    assert len(np.unique(X, axis=0)) == 432
    assert load_diabetes_table(10)[0].shape == (442, 10)


def test_synthetic_tasks():
    X, y = make_random_plane(50, 3, random_state=1)
    assert (X.shape, y.shape) == ((50, 3), (50,))
    assert np.array_equal(X, make_random_plane(50, 3, random_state=1)[0])
    X, y = make_smooth(50, 3, random_state=1)
    assert np.allclose(y, np.sin(X[:, 0]) + np.cos(X[:, 1]) + np.sin(X[:, 2]))


def test_digit_images():
    X, labels = load_digit_images()
    assert X.shape == (1797, 64)
    assert (X.min(), X.max()) == (0.0, 1.0)
    X, labels = load_digit_images((7, 8, 9), 14, random_state=3)
    assert np.bincount(labels).tolist() == [0] * 7 + [14] * 3
    assert len(np.unique(X, axis=0)) == 42


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


def test_teacher_and_student():
    X, Y = make_teacher_student(100, (3, 5, 2), random_state=1)
    assert (X.shape, Y.shape) == ((100, 3), (100, 2))
    assert np.allclose(make_teacher_student(40, (3, 5, 2), random_state=1)[0], X[:40])
    assert np.allclose(make_teacher_student(40, (3, 5, 2), random_state=1)[1], Y[:40])
    assert 0.1 < Y.std() < 2.0
    linear = make_teacher_student(30, (3, 2))
    assert np.linalg.matrix_rank(np.hstack(linear)) == 3
    # positively homogeneous: no bias in the teacher
    rng = np.random.default_rng(1)
    first, second = rng.standard_normal((5, 3)) / np.sqrt(3), rng.standard_normal((2, 5)) / np.sqrt(5)
    assert np.allclose(Y, np.maximum(X @ first.T, 0) @ second.T)
    teacher = make_teacher_student(100, (3, 5, 2), random_state=1, return_weights=True)[2]
    assert all(np.array_equal(a, b) for a, b in zip(teacher, (first, second), strict=True))
