"""Proof files: a round trip, and one sentence for whatever is damaged."""

import json
import time
from fractions import Fraction
from itertools import islice

import numpy as np
import pytest

import covopt
from benchmarks.adversary.mutate import mutations
from covopt.errors import SolutionFileError
from covopt.proofs import Proof
from covopt.proofs.proof import sealed


def test_a_file_of_version_1_is_refused():
    with pytest.raises(SolutionFileError, match=r"reads 2\. An older covopt wrote it"):
        Proof.from_dict({"format": "covopt-proof", "version": 1, "digest": "ab", "lower_bound": 1.0})


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


def test_damaged_files_are_one_sentence_soon(tmp_path):
    began, refused = time.process_time(), 0
    content = covopt.min_norm([[0.0], [1.0], [2.5]], [0.0, 1.0, 0.1]).prove().to_dict()
    for what, raw in islice(mutations(content, np.random.default_rng(0)), 200):
        (tmp_path / "bad.json").write_bytes(raw)
        try:
            Proof.load(tmp_path / "bad.json")
        except SolutionFileError as error:
            refused += 1
            assert "\n" not in str(error) and len(str(error)) < 500, what
    assert refused > 100
    assert time.process_time() - began < 10.0


def test_missing_and_large_files(tmp_path, monkeypatch):
    with pytest.raises(SolutionFileError, match="cannot read"):
        Proof.load(tmp_path / "none.json")
    with pytest.raises(SolutionFileError, match="cannot read"):
        Proof.load(tmp_path)
    monkeypatch.setattr("covopt.proofs.proof.LARGEST", 10)
    (tmp_path / "large.json").write_text(" " * 20)
    with pytest.raises(SolutionFileError, match="more than 10 bytes"):
        Proof.load(tmp_path / "large.json")
