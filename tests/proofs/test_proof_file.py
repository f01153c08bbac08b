"""Proof files: a round trip, and one sentence for whatever is damaged."""

import json
import time
from fractions import Fraction

import pytest

import covopt
from covopt.errors import SolutionFileError
from covopt.proofs import FirstProof, Proof
from covopt.proofs.theorem import sealed
from tests.proofs.simple import content_of


def test_a_file_of_version_1_is_read(tmp_path):
    (tmp_path / "proof.json").write_text(json.dumps(content_of("ab", 1) | {"V": [[1.0]]}))
    assert Proof.load(tmp_path / "proof.json") == FirstProof("ab", 1.0)


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


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("format", "covopt-solution"), ("version", 3), ("version", True), ("version", [[]]), ("digest", 3),
        ("lower_bound", "high"), ("lower_bound", None), ("lower_bound", True), ("lower_bound", 10**400),
    ],
)  # fmt: skip
def test_a_damaged_entry_is_one_sentence(tmp_path, name, value):
    content = {**content_of("ab", 1.5), name: value}
    (tmp_path / "bad.json").write_text(json.dumps(content))
    with pytest.raises(SolutionFileError) as error:
        Proof.load(tmp_path / "bad.json")
    assert "\n" not in str(error.value)
    assert len(str(error.value)) < 250
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
def test_numbers_that_are_not_finite_are_refused(tmp_path, number):
    text = json.dumps(content_of("ab", 12345.5)).replace("12345.5", number)
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
