"""A bracket on a CP-rank that was interrupted goes on where it was, and what the file says is checked again."""

import json
import os

import pytest
from filelock import FileLock
from known_matrices import M7
from typer.testing import CliRunner

import covopt
from covopt.cli import app
from covopt.errors import CheckpointWarning, InputError, SolutionFileError
from tests.stopped_runs import fill_disk, interrupt_at

SMALL = [[2, 1, 1], [1, 2, 1], [1, 1, 2]]  # a second component
A = [[*row, 0, 0, 0] for row in M7] + [[0] * 7 + row for row in SMALL]
RANK = 14 + 3


def stopped_at(count, file, monkeypatch):
    with monkeypatch.context() as patched:
        interrupt_at(patched, count)
        return covopt.cp_rank(A, time_limit_s=None, checkpoint=file)


@pytest.mark.parametrize("count", [2, 5])  # of ten; rounding may make it a few less
def test_an_interrupted_bracket_goes_on(count, tmp_path, monkeypatch):
    file = covopt.Checkpoint(tmp_path / "c.checkpoint")
    first = stopped_at(count, file, monkeypatch)
    assert file.stopped
    assert first.lower < RANK or first.upper is None
    assert all(check.ok for check in first.verify()), [check for check in first.verify() if not check.ok]
    kept = covopt.load(file.path)  # the checkpoint is a certificate itself
    assert (kept.lower, kept.upper) == (first.lower, first.upper)
    assert all(check.ok for check in kept.verify())
    with monkeypatch.context() as patched:
        rest = interrupt_at(patched, 0)
        second = covopt.cp_rank(A, checkpoint=file)
    assert 0 < len(rest) <= 10 - count  # no step is done twice
    assert (second.lower, second.upper) == (RANK, RANK)
    assert all(check.ok for check in second.verify())
    assert not file.stopped
    assert sorted(os.listdir(tmp_path)) == []


def test_nothing_in_the_file_is_believed(tmp_path, monkeypatch):
    file = tmp_path / "c.checkpoint"
    stopped_at(9, file, monkeypatch)
    content = json.loads(file.read_text())
    for kept in content["resume"]["components"]:
        for reason in kept["reasons"]:
            reason["value"] += 1 if reason["side"] == "lower" else -1
        if kept["factor"] is not None:
            kept["factor"] = kept["factor"][1:]
    file.write_text(json.dumps(content))
    found = covopt.cp_rank(A, time_limit_s=0.5, checkpoint=file)
    assert found.lower <= RANK
    assert found.upper is None or found.upper >= RANK
    assert all(check.ok for check in found.verify())


def test_what_cannot_be_gone_on_with_is_said(tmp_path, monkeypatch):
    file = tmp_path / "c.checkpoint"
    stopped_at(2, file, monkeypatch)
    kept = file.read_text()
    for change, said in (
        ({"A": M7}, "of another problem: A differs"),
        ({"tol": 1e-8}, "tol differs"),
        ({"method": "rank"}, "method differs"),
        ({"random_state": 1}, "random_state differs"),
    ):
        with pytest.raises(InputError, match=said):
            covopt.cp_rank(**{"A": A, "checkpoint": file, **change})
    for damage in (
        {"components": 3},
        {"components": [{}]},
        {"components": [{**json.loads(kept)["resume"]["components"][0], "places": {"search": [1]}}]},
        {"components": [{**json.loads(kept)["resume"]["components"][0], "factor": [[1.0]]}]},
    ):
        content = json.loads(kept)
        content["resume"].update(damage)
        file.write_text(json.dumps(content))
        with pytest.raises(SolutionFileError, match="is damaged"):
            covopt.cp_rank(A, checkpoint=file)
    content["resume"] = {"version": 99}
    file.write_text(json.dumps(content))
    with pytest.raises(SolutionFileError, match="no checkpoint of cp_rank that this covopt reads"):
        covopt.cp_rank(A, checkpoint=file)
    with FileLock(f"{file}.lock"), pytest.raises(InputError, match="another process writes the checkpoint"):
        covopt.cp_rank(A, checkpoint=file)


def test_a_full_disk_ends_no_bracket(tmp_path, monkeypatch):
    fill_disk(monkeypatch)
    file = covopt.Checkpoint(tmp_path / "c.checkpoint", every_s=0.0)
    with pytest.warns(
        CheckpointWarning, match="could not be written: No space left on device; the run goes on"
    ):
        assert covopt.cp_rank(SMALL, checkpoint=file).upper == 3


def test_the_command_goes_on(tmp_path, monkeypatch):
    table, out = tmp_path / "A.csv", tmp_path / "c.json"
    table.write_text("\n".join(",".join(map(str, row)) for row in A))
    asked = ["cp-rank", str(table), "--out", str(out)]
    with monkeypatch.context() as patched:
        interrupt_at(patched, 5)
        first = CliRunner().invoke(app, asked)
    assert first.exit_code == 3
    assert "the same command with --resume goes on from" in first.output
    assert CliRunner().invoke(app, ["verify", str(out)]).exit_code == 0
    second = CliRunner().invoke(app, [*asked, "--resume"])
    assert second.exit_code == 0
    assert f"CP-rank    {RANK}" in second.output
    assert sorted(os.listdir(tmp_path)) == ["A.csv", "c.json"]


def test_a_run_that_is_killed_before_it_saves_goes_on(tmp_path):
    kept = covopt.Checkpoint(tmp_path / "c.checkpoint", keep=True)  # who saves the result removes it
    assert covopt.cp_rank(SMALL, checkpoint=kept).upper == 3
    assert kept.path.exists()
    assert covopt.cp_rank(SMALL, checkpoint=kept).upper == 3
