import numpy as np
import pandas as pd
import pytest

from covopt.data import Data
from covopt.datasets import (
    load_diabetes_table,
    load_digit_images,
    load_table,
    make_random_plane,
    make_smooth,
    make_teacher_student,
)
from covopt.errors import InputError, TableWarning


@pytest.fixture
def write(tmp_path):
    def write(name, text):
        path = tmp_path / name
        path.write_text(text, encoding="utf-8")
        return path

    return write


def refused(path, target="y", features=None):
    with pytest.raises(InputError) as caught:
        load_table(path, target=target, features=features)
    return str(caught.value)


def has(message, *parts):
    for part in parts:
        assert part in message, (part, message)


def test_csv(write):
    path = write("t.csv", "name,a, b ,y\nfoo,0.1,2,3\nbar,4,5e-3,6\n")
    X, Y, features, targets = load_table(path, target="y")
    assert X.tolist() == [[0.1, 2], [4, 0.005]]  # columns of text are left out
    assert Y.tolist() == [[3], [6]]
    assert (features, targets) == (("a", "b"), ("y",))
    X, Y, features, targets = load_table(path, target="y,b", features="a")
    assert Y.tolist() == [[3, 2], [6, 0.005]]
    assert (features, targets) == (("a",), ("y", "b"))
    X, Y, _, targets = load_table(path, target=None)
    assert (X.shape, Y.shape, targets) == ((2, 3), (2, 0), ())


@pytest.mark.parametrize(
    ("text", "position"),
    [
        (",a,y\n0,0.5,2\n1,0.25,3\n", 0),
        (",a,y\n7,0.5,2\n3,0.25,3\n", 0),  # rows that were shuffled
        ("Unnamed: 0,a,y\n0,0.5,2\n1,0.25,3\n", 0),
        ("a,y,\n0.5,2,\n0.25,3,\n", 2),
    ],
)
def test_a_column_of_row_numbers_is_no_feature(write, text, position):
    path = write("t.csv", text)
    with pytest.warns(
        TableWarning, match=f"column {position} .* has no name .*'Unnamed: {position}' keeps it"
    ):
        X, _, features, _ = load_table(path, target="y")
    assert (X.tolist(), features) == ([[0.5], [0.25]], ("a",))
    assert load_table(path, target="y", features=f"a,Unnamed: {position}")[2] == ("a", f"Unnamed: {position}")


def test_columns_without_a_name_that_hold_data_stay(write):
    text = ",a,y\n0.5,1,2\n0.25,2,3\n"
    assert load_table(write("t.csv", text), target="y")[2] == ("Unnamed: 0", "a")
    assert load_table(write("t.csv", ",a,y\n1,1,2\n1,2,3\n"), target="y")[2] == ("Unnamed: 0", "a")
    # the only input there is
    assert load_table(write("t.csv", ",y\n0,2\n1,3\n"), target="y")[2] == ("Unnamed: 0",)


@pytest.mark.parametrize(
    "name, delimiter", [("t.csv", ";"), ("t.csv", "\t"), ("t.tsv", "\t"), ("t.txt", "\t")]
)
def test_delimiters(write, name, delimiter):
    X, Y, *_ = load_table(write(name, f"\ufeffa{delimiter}y\n1{delimiter}2\n"), target="y")
    assert X.tolist() == [[1]]
    assert Y.tolist() == [[2]]


def test_csv_numbers_are_read_exactly(write):
    values = np.random.default_rng(0).standard_normal(200)
    path = write("t.csv", "a,y\n" + "".join(f"{v!r},1\n" for v in values.tolist()))
    assert (load_table(path, target="y")[0][:, 0] == values).all()


def test_parquet(tmp_path):
    path = tmp_path / "t.parquet"
    pd.DataFrame({"a": [1, 2], "s": ["u", "v"], "y": [0.5, 1.5]}).to_parquet(path)
    X, Y, features, _ = load_table(path, target="y")
    assert X.tolist() == [[1], [2]]
    assert Y.tolist() == [[0.5], [1.5]]
    assert features == ("a",)


def test_npz(tmp_path):
    path = tmp_path / "t.npz"
    np.savez(path, X=np.eye(3), y=np.arange(3))
    X, Y, features, targets = load_table(path, target="y")
    assert np.array_equal(X, np.eye(3))
    assert Y.ravel().tolist() == [0, 1, 2]
    assert (features, targets) == (("x0", "x1", "x2"), ("y",))
    np.savez(path, X=np.eye(3), Y=np.eye(3)[:, :2], feature_names=np.array(["p", "q", "r"]))
    X, Y, features, targets = load_table(path, target="y")
    assert (features, targets) == (("p", "q", "r"), ("y0", "y1"))
    np.savez(path, u=np.arange(3), v=np.ones(3), t=np.zeros(3))
    assert load_table(path, target="t")[2] == ("u", "v")
    np.savez(path, u=np.arange(3), y=np.arange(4))
    has(refused(path), "same number of rows", "u (3,)", "y (4,)")


def test_files_that_cannot_be_read(write, tmp_path):
    write("table.csv", "a,y\n1,2\n")
    has(refused(tmp_path / "tabel.csv"), "does not exist", "did you mean 'table.csv'")
    has(refused(tmp_path / "t.doc"), "unknown file type '.doc'", ".csv")
    has(refused(write("bad.parquet", "hi")), "bad.parquet cannot be read as PARQUET")
    has(refused(write("bad.npz", "hi")), "not an NPZ archive", "numpy.savez")
    (tmp_path / "dir.csv").mkdir()
    has(refused(tmp_path / "dir.csv"), "is a folder")
    (tmp_path / "bin.csv").write_bytes(b"\x89\xff,y\n")
    has(refused(tmp_path / "bin.csv"), "cannot be read as CSV")
    has(refused(write("long.csv", "a,y\n1,2,3\n1,2,3\n")), "line 2 has 3 fields", "names 2 columns")


def test_columns(write):
    path = write("t.csv", "alpha,beta,y\n1,2,3\n4,5,6\n")
    has(refused(path, "z"), "target", "no column 'z'", "Available: alpha, beta, y")
    has(refused(path, features="alpha,btea"), "features", "'btea'", "did you mean 'beta'")
    has(refused(path, features="ALPHA"), "'ALPHA'; did you mean 'alpha'?")
    has(refused(path, features="alpha,y"), "'y' is both a feature and the target")
    has(refused(path, features="alpha,alpha"), "'alpha' twice")
    has(refused(write("d.csv", "a,a,y\n1,2,3\n")), "more than one column called 'a'")
    has(refused(write("n.csv", "1,2,3\n4,5,6\n")), "first line must name the columns", "1,2,3")
    has(refused(write("e.csv", "")), "empty")
    has(refused(write("r.csv", "a,y\n")), "no rows")
    has(refused(write("o.csv", "s,y\nfoo,1\n")), "no numeric column besides the target 'y'")


def test_columns_that_mix_numbers_and_text(write):
    path = write("t.csv", "a,b,y\n1,2,3\n4,n.d.,6\n")
    has(refused(path), "column 'b' is not numeric", "line 3", "'n.d.'", "--features")
    assert load_table(path, target="y", features="a")[0].tolist() == [[1], [4]]
    has(refused(write("c.csv", "a;b;y\n1,5;2;3\n")), "column 'a'", "line 2", "'1,5'")
    has(refused(write("s.csv", "s,y\nfoo,1\n"), features="s"), "column 's'", "'foo'")


def test_missing_cells_are_found_by_validation(write):
    X, Y, features, _ = load_table(write("t.csv", "a,b,y\n1,2,3\n4,,6\n"), target="y")
    with pytest.raises(InputError, match=r"row 1 \(counting from 0\), column 1 \('b'\) is NaN"):
        Data.validate(X, Y, feature_names=features)


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
    for digits in ((), (1, 1), (10,), ("7",)):
        with pytest.raises(InputError, match="digits must be different numbers from 0 to 9; received"):
            load_digit_images(digits)


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

    def fail(name, **options):
        raise OSError("no route to host")

    monkeypatch.setattr(sklearn.datasets, "fetch_openml", fail)
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
    for widths in ((3,), (3, 0), (3, 1.5)):
        with pytest.raises(InputError, match="widths must be positive integers"):
            make_teacher_student(5, widths)
