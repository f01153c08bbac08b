"""A proof that was interrupted ends as the same proof, to the last box; no part of a check is done twice."""

import json
import os

import numpy as np
import pytest
from filelock import FileLock
from typer.testing import CliRunner

import covopt
from covopt.certificates.prove import problem_of
from covopt.certificates.prove_keeping import digest_of
from covopt.cli import app
from covopt.errors import CheckpointWarning, InputError, SolutionFileError
from covopt.proofs import Proof, check_proof
from tests.stopped_runs import fill_disk, interrupt_at


@pytest.fixture(scope="module")
def solution():
    rng = np.random.default_rng(0)
    return covopt.min_norm(rng.standard_normal((16, 2)), rng.standard_normal(16))


@pytest.fixture(scope="module")
def whole(solution):
    return solution.prove()


@pytest.fixture(autouse=True)
def small_steps(monkeypatch):
    """Many rounds of the search and many parts of the check, for a small proof."""
    monkeypatch.setattr("covopt.oracles.cones.search.FIRST_SLICE", 8)
    monkeypatch.setattr("covopt.oracles.cones.search.LARGEST_SLICE", 16)
    monkeypatch.setattr("covopt.certificates.prove.LARGE_PART", 64)
    monkeypatch.setattr("covopt.certificates.prove.FIRST_BOXES", 40)


def test_an_interrupted_proof_goes_on_and_is_the_same(solution, whole, tmp_path, monkeypatch):
    file = tmp_path / "p.checkpoint"
    with monkeypatch.context() as patched:
        every = interrupt_at(patched, 0)
        assert solution.prove(checkpoint=file).to_dict() == whole.to_dict()
    assert len(every) > 10
    assert not file.exists()
    for count in (1, len(every) // 2, len(every) - 1):
        with monkeypatch.context() as patched:
            done = interrupt_at(patched, count)
            asked = covopt.Checkpoint(file)
            first = solution.prove(checkpoint=asked)
            assert asked.stopped
            assert len(done) == count
        assert first.lower_bound < whole.lower_bound
        kept = Proof.load(file)  # the checkpoint is a proof itself, of less
        assert kept.lower_bound == first.lower_bound
        problem = problem_of(solution, solution.data)
        assert check_proof(problem, solution.dual, kept).lower_bound >= kept.lower_bound
        with monkeypatch.context() as patched:
            rest = interrupt_at(patched, 0)
            second = solution.prove(checkpoint=file)
        assert second.to_dict() == whole.to_dict()
        assert len(rest) == len(every) - count  # nothing is done twice
        assert sorted(os.listdir(tmp_path)) == []


def test_time_that_is_up_leaves_a_checkpoint(solution, whole, tmp_path):
    asked = covopt.Checkpoint(tmp_path / "p.checkpoint")
    first = solution.prove(time_limit_s=1e-3, checkpoint=asked)
    assert asked.stopped
    assert first.lower_bound < whole.lower_bound
    assert solution.prove(checkpoint=asked).to_dict() == whole.to_dict()
    assert not asked.stopped


def test_what_cannot_be_gone_on_with_is_said(solution, whole, tmp_path, monkeypatch):
    file = tmp_path / "p.checkpoint"
    with monkeypatch.context() as patched:
        interrupt_at(patched, 6)
        solution.prove(checkpoint=file)
    kept = json.loads(file.read_text())
    other = covopt.min_norm([[0.0], [1.0], [2.0]], [0.0, 1.0, 0.0])
    with pytest.raises(InputError, match="about another table, question or dual point"):
        other.prove(checkpoint=file)
    changed = json.loads(file.read_text())
    changed["resume"]["state"]["boxes"] = 7
    file.write_text(json.dumps(changed))
    with pytest.raises(
        SolutionFileError, match=r"checkpoint .* is damaged: its contents do not fit its digest"
    ):
        solution.prove(checkpoint=file)
    file.write_text("{}")
    with pytest.raises(
        SolutionFileError, match=r"the checkpoint .* cannot be gone on with: this is not a covopt proof"
    ):
        solution.prove(checkpoint=file)
    with FileLock(f"{file}.lock"), pytest.raises(InputError, match="another process writes the checkpoint"):
        solution.prove(checkpoint=file)
    kept["resume"]["covopt"] = "0.0.1"  # what another version kept is left aside, but for its proof
    file.write_text(json.dumps(kept))
    assert solution.prove(checkpoint=file).to_dict() == whole.to_dict()


def test_nothing_in_the_file_is_believed(solution, whole, tmp_path, monkeypatch):
    # with its hash made anew: a bound that nothing proves, and parts of the check that come to nothing
    file = tmp_path / "p.checkpoint"
    file.write_text(json.dumps(whole.to_dict() | {"lower_bound": 1e9}))
    assert solution.prove(checkpoint=file).to_dict() == whole.to_dict()
    with monkeypatch.context() as patched:
        interrupt_at(patched, 10)  # within the check
        solution.prove(checkpoint=file)
    kept = json.loads(file.read_text())
    (answers,) = kept["resume"]["state"]["checked"].values()
    for each in answers:
        each[0] = "0/1"
    kept["resume"]["digest"] = digest_of(kept["resume"]["state"])
    file.write_text(json.dumps(kept))
    with pytest.raises(SolutionFileError, match=r"part \d+ of the check has another answer"):
        solution.prove(checkpoint=file)


def test_a_full_disk_ends_no_proof(solution, whole, tmp_path, monkeypatch):
    fill_disk(monkeypatch)
    file = covopt.Checkpoint(tmp_path / "p.checkpoint", every_s=0.0)
    with pytest.warns(
        CheckpointWarning, match="could not be written: No space left on device; the run goes on"
    ):
        assert solution.prove(checkpoint=file).to_dict() == whole.to_dict()


def test_the_command_goes_on(solution, tmp_path):
    saved, out = tmp_path / "s.json", tmp_path / "p.json"
    solution.save(saved)
    asked = ["prove", str(saved), "--out", str(out)]
    first = CliRunner().invoke(app, [*asked, "--time-limit", "0.001"])
    assert first.exit_code == 3
    assert "the same command with --resume goes on from" in first.output
    second = CliRunner().invoke(app, [*asked, "--resume"])
    assert second.exit_code == 0
    assert sorted(os.listdir(tmp_path)) == ["p.json", "s.json"]
    missing = CliRunner().invoke(app, [*asked, "--resume"])
    assert "there is no checkpoint" in missing.output


def test_a_run_that_is_killed_before_it_saves_goes_on(solution, whole, tmp_path, monkeypatch):
    kept = covopt.Checkpoint(tmp_path / "p.checkpoint", keep=True)  # who saves the result removes it
    assert solution.prove(checkpoint=kept).to_dict() == whole.to_dict()
    offers = interrupt_at(monkeypatch, 0)
    assert solution.prove(checkpoint=kept).to_dict() == whole.to_dict()
    assert not offers  # all of it was done
