"""Proof files: a round trip, and one sentence for whatever is damaged."""

import json
import time
from fractions import Fraction

import numpy as np
import pytest

import covopt
from covopt.errors import SolutionFileError
from covopt.proofs import FirstProof, Proof
from covopt.proofs.theorem import sealed
from tests.proofs.simple import content_of, make_problem, make_proof


@pytest.fixture
def proof():
    problem = make_problem([[0.0], [1.0]], [0.0, 1.0])
    return make_proof(problem, np.array([-1.0, 1.0]), 1.5)


def test_a_file_of_version_1_is_read(proof, tmp_path):
    (tmp_path / "proof.json").write_text(json.dumps(content_of(proof)))
    again = Proof.load(tmp_path / "proof.json")
    assert content_of(again) == content_of(proof)
    assert again.y.tobytes() == proof.y.tobytes()
    none = np.zeros(0)
    empty = np.zeros((0, 0)), np.zeros(0, int), none
    nothing = FirstProof("", np.zeros((2, 0)), *empty, -np.ones(1, int), np.ones(1), 0, 1.0, b"", 0.0)
    assert content_of(Proof.from_dict(content_of(nothing))) == content_of(nothing)


def test_a_closed_proof_comes_back_as_it_was(tmp_path):
    proof = covopt.min_norm([[0.0], [1.0], [2.5]], [0.0, 1.0, 0.1]).prove()
    proof.save(tmp_path / "proof.json")
    again = Proof.load(tmp_path / "proof.json")
    assert again.text == proof.text == (tmp_path / "proof.json").read_text()
    assert again.boxes == proof.boxes > 0
    assert again.own.x_unit == again.own.y_unit == Fraction(1, 10)  # of short decimals
    spaced = json.dumps(proof.to_dict(), indent=1)  # the readers refuse that; here its content is read
    (tmp_path / "proof.json").write_text(spaced)
    assert covopt.load(tmp_path / "proof.json").text == proof.text
    content = proof.to_dict()
    content["theorem"]["bound"] = "100 1"
    with pytest.raises(SolutionFileError, match="the digest is not that of the theorem"):
        Proof.from_dict(content)
    with pytest.raises(SolutionFileError, match="the bound is larger than what H gives"):
        Proof(sealed(content)).boxes  # noqa: B018


CHANGES = {
    "format": "covopt-solution", "version": 3, "digest": 3, "V": [[1.0, 0.0], [0.0]], "y": [[1.0, 2.0, 3.0]] * 2,
    "signs": [1, 2], "linear": "0", "piece": [0, 7], "factor": [1.0, None], "exponent": 10**6, "H": -1.0, "tree": "A",
    "lower_bound": "high",
}  # fmt: skip
MORE = [
    ("version", True), ("version", [[]]), ("V", {}), ("y", [[[1.0]]]), ("y", None), ("signs", [1.0, 1.0]),
    ("signs", [True, True]), ("signs", [1]), ("piece", [0, -2]), ("piece", [0, 10**30]), ("factor", [1.0]),
    ("factor", [1.0, 10**400]), ("exponent", 1.5), ("exponent", "0"), ("H", 0.0), ("H", 10**400), ("H", True),
    ("tree", [0]), ("tree", "****"), ("linear", []), ("linear", [0.0, [0.0]]), ("V", [["1", "0"], ["0", "1"]]),
]  # fmt: skip


@pytest.mark.parametrize(("name", "value"), [*CHANGES.items(), *MORE])
def test_a_damaged_entry_is_one_sentence(proof, tmp_path, name, value):
    content = {**content_of(proof), name: value}
    (tmp_path / "bad.json").write_text(json.dumps(content))
    with pytest.raises(SolutionFileError) as error:
        Proof.load(tmp_path / "bad.json")
    assert "\n" not in str(error.value)
    assert len(str(error.value)) < 250


@pytest.mark.parametrize("name", CHANGES)
def test_a_missing_entry_is_one_sentence(proof, name):
    content = content_of(proof)
    del content[name]
    with pytest.raises(SolutionFileError):
        Proof.from_dict(content)


@pytest.mark.parametrize(
    "text",
    [
        "", "[", "null", "[" * 200_000, '{"a":' * 100_000, "\x00", '{"format": NaN}', '"covopt-proof"', "9" * 6000,
        '{"format": "covopt-proof", "version": 1' + "0" * 5000,
    ],
)  # fmt: skip
def test_what_is_no_json_is_one_sentence_soon(tmp_path, text):
    (tmp_path / "bad.json").write_text(text)
    begin = time.perf_counter()
    with pytest.raises(SolutionFileError) as error:
        Proof.load(tmp_path / "bad.json")
    assert time.perf_counter() - begin < 1.0
    assert len(str(error.value)) < 400


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity", "1e999"])
def test_numbers_that_are_not_finite_are_refused(proof, tmp_path, number):
    text = json.dumps({**content_of(proof), "linear": [0.0, 12345.5]}).replace("12345.5", number)
    (tmp_path / "bad.json").write_text(text)
    with pytest.raises(SolutionFileError, match=r"finite|JSON"):
        Proof.load(tmp_path / "bad.json")


def test_missing_and_large_files(tmp_path, monkeypatch):
    with pytest.raises(SolutionFileError, match="cannot read"):
        Proof.load(tmp_path / "none.json")
    with pytest.raises(SolutionFileError, match="cannot read"):
        Proof.load(tmp_path)
    monkeypatch.setattr("covopt.proofs.proof.LARGEST", 10)
    (tmp_path / "large.json").write_text(" " * 20)
    with pytest.raises(SolutionFileError, match="more than 10 bytes"):
        Proof.load(tmp_path / "large.json")
