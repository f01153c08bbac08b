"""A proof that was interrupted proves as much in the end; finished ones are kept."""

import json
import os

import numpy as np
import pytest
from filelock import FileLock
from typer.testing import CliRunner

import covopt
from covopt.certificates import prove
from covopt.cli import app
from covopt.errors import CheckpointWarning, InputError, SolutionFileError
from covopt.proofs import Proof
from covopt.proofs.theorem import sealed
from tests.stopped_runs import fill_disk


@pytest.fixture(scope="module")
def solution():
    rng = np.random.default_rng(0)
    return covopt.min_norm(rng.standard_normal((16, 2)), rng.standard_normal(16))


@pytest.fixture(scope="module")
def whole(solution):
    return solution.prove()


@pytest.fixture(autouse=True)
def small_steps(monkeypatch):
    """Several searches for a small proof."""
    monkeypatch.setattr("covopt.certificates.prove.FIRST_BOXES", 40)


def as_much(proof, whole):
    """Whether a proof by fewer boxes, which the checker cut further, proves the same."""
    return abs(proof.lower_bound - whole.lower_bound) <= 2e-9 * whole.lower_bound


def interrupted(monkeypatch, count):
    """Let an interrupt come after so many proofs; return how many boxes each search had."""
    inner, asked = prove.prove, []

    def counting(*args, **options):
        if len(asked) == count > 0:
            raise KeyboardInterrupt
        asked.append(options["max_boxes"])
        return inner(*args, **options)

    monkeypatch.setattr(prove, "prove", counting)
    return asked


def test_an_interrupted_proof_goes_on_and_proves_as_much(solution, whole, tmp_path, monkeypatch):
    file = tmp_path / "p.checkpoint"
    with monkeypatch.context() as patched:
        every = interrupted(patched, 0)
        assert as_much(solution.prove(checkpoint=file), whole)
    assert len(every) > 1
    assert not file.exists()
    with monkeypatch.context() as patched:
        interrupted(patched, 1)
        asked = covopt.Checkpoint(file)
        first = solution.prove(checkpoint=asked)
        assert asked.stopped
    assert first.lower_bound < whole.lower_bound
    kept = Proof.load(file)  # the checkpoint is a proof itself, of less
    assert kept.lower_bound == first.lower_bound
    assert kept.boxes == first.boxes
    with monkeypatch.context() as patched:
        rest = interrupted(patched, 0)
        assert as_much(solution.prove(checkpoint=file), whole)
        assert rest[0] > every[0]  # finished proofs are not made again
    assert sorted(os.listdir(tmp_path)) == []


def test_an_interrupt_before_there_is_a_proof_is_heard(solution, tmp_path, monkeypatch):
    monkeypatch.setattr(prove, "prove", lambda *args, **options: (_ for _ in ()).throw(KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        solution.prove(checkpoint=tmp_path / "p.checkpoint")


def test_what_cannot_be_gone_on_with_is_said(solution, whole, tmp_path, monkeypatch):
    file = tmp_path / "p.checkpoint"
    with monkeypatch.context() as patched:
        interrupted(patched, 1)
        solution.prove(checkpoint=file)
    other = covopt.min_norm([[0.0], [1.0], [2.0]], [0.0, 1.0, 0.0])
    with pytest.raises(InputError, match="is about another table; give the same solution"):
        other.prove(checkpoint=file)
    kept = file.read_text()
    file.write_text("{}")
    with pytest.raises(
        SolutionFileError, match=r"the checkpoint .* cannot be gone on with: this is not a covopt proof"
    ):
        solution.prove(checkpoint=file)
    with FileLock(f"{file}.lock"), pytest.raises(InputError, match="another process writes the checkpoint"):
        solution.prove(checkpoint=file)
    file.write_text(json.dumps(json.loads(kept) | {"resume": {"covopt": "0.0.1"}}))  # of another version
    assert as_much(solution.prove(checkpoint=file), whole)


def test_nothing_in_the_file_is_believed(solution, whole, tmp_path):
    file, content = tmp_path / "p.checkpoint", whole.to_dict()
    content["theorem"]["bound"] = "1000000 1"
    file.write_text(sealed(content))
    with pytest.raises(SolutionFileError, match="the bound is larger than what H gives"):
        solution.prove(checkpoint=file)


def test_a_full_disk_ends_no_proof(solution, whole, tmp_path, monkeypatch):
    fill_disk(monkeypatch)
    file = covopt.Checkpoint(tmp_path / "p.checkpoint", every_s=0.0)
    with pytest.warns(
        CheckpointWarning, match="could not be written: No space left on device; the run goes on"
    ):
        assert as_much(solution.prove(checkpoint=file), whole)


def test_the_command_goes_on(solution, tmp_path):
    saved, out = tmp_path / "s.json", tmp_path / "p.json"
    solution.save(saved)
    asked = ["prove", str(saved), "--out", str(out)]
    for limit in ("0.001", "0.01", "0.03", "0.1"):  # a first proof takes as long as the machine is busy
        first = CliRunner().invoke(app, [*asked, "--time-limit", limit])
        assert first.exit_code == 3
        if "--resume" in first.output:
            break
    assert "the same command with --resume goes on from" in first.output
    second = CliRunner().invoke(app, [*asked, "--resume"])
    assert second.exit_code == 0
    assert sorted(os.listdir(tmp_path)) == ["p.json", "s.json"]
    missing = CliRunner().invoke(app, [*asked, "--resume"])
    assert "there is no checkpoint" in missing.output


def test_a_run_that_is_killed_before_it_saves_goes_on(solution, whole, tmp_path, monkeypatch):
    kept = covopt.Checkpoint(tmp_path / "p.checkpoint", keep=True)  # who saves the result removes it
    assert as_much(solution.prove(checkpoint=kept), whole)
    again = interrupted(monkeypatch, 0)
    assert as_much(solution.prove(checkpoint=kept), whole)
    assert not again  # all of it was done
