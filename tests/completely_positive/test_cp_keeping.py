"""A bracket on a CP-rank that was interrupted goes on where it was, and what the file says is checked again."""

import json
import os

import pytest
from filelock import FileLock
from known_matrices import M7

import covopt
from covopt.errors import CheckpointWarning, InputError, SolutionFileError
from tests.commands import run
from tests.stopped_runs import fill_disk, interrupt_at

SMALL = [[2, 1, 1], [1, 2, 1], [1, 1, 2]]  # a second component
A = [[*row, 0, 0, 0] for row in M7] + [[0] * 7 + row for row in SMALL]
RANK = 14 + 3


def stopped_at(count, file, monkeypatch):
    with monkeypatch.context() as patched:
        interrupt_at(patched, count)
        return covopt.cp_rank(A, time_limit_s=None, checkpoint=file)


@pytest.mark.parametrize("count", [5, *(pytest.param(n, marks=pytest.mark.slow) for n in (2, 8))])
def test_an_interrupted_bracket_goes_on(count, tmp_path, monkeypatch):
    file = covopt.Checkpoint(tmp_path / "c.checkpoint")
    first = stopped_at(count, file, monkeypatch)
    assert file.stopped
    assert first.lower < RANK or first.upper is None
    assert all(check.ok for check in first.verify()), [check for check in first.verify() if not check.ok]
    kept = covopt.load(file.path)  # the checkpoint is a certificate itself
    assert (kept.lower, kept.upper) == (first.lower, first.upper)
    second = covopt.cp_rank(A, checkpoint=file, time_limit_s=1e-3)
    assert second.lower >= first.lower
    assert first.upper is None or second.upper <= first.upper
    third = covopt.cp_rank(A, checkpoint=file)
    assert (third.lower, third.upper) == (RANK, RANK)
    assert all(check.ok for check in third.verify())
    assert not file.stopped
    assert sorted(os.listdir(tmp_path)) == []


def test_a_component_that_is_done_is_not_done_again(tmp_path, monkeypatch):
    def interrupt(*_, **__):
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr("covopt.completely_positive.face.face_certificate", lambda *_, **__: None)
        patched.setattr("covopt.completely_positive.moments.moment_bound", interrupt)
        assert covopt.cp_rank(A, checkpoint=tmp_path / "c").upper is None
    taken = "covopt.completely_positive.bounding.Component.take"
    monkeypatch.setattr(taken, lambda *_: pytest.fail("a factor is taken again"))
    assert covopt.cp_rank(A, checkpoint=tmp_path / "c").lower == RANK


def test_nothing_in_the_file_is_believed(tmp_path, monkeypatch):
    file = tmp_path / "c.checkpoint"
    stopped_at(8, file, monkeypatch)
    content = json.loads(file.read_text())
    for reason in content["readings"][0]["reasons"]:
        reason["value"] += 1 if reason["side"] == "lower" else -1
        if "rows" in reason["data"]:
            reason["data"]["rows"].pop()
    content["readings"][0]["lower"] = content["lower"] = sum(
        max(
            (
                r["value"]
                for r in content["readings"][0]["reasons"]
                if r["side"] == "lower" and min(r["vertices"]) == v
            ),
            default=0,
        )
        for v in (0, 7)
    )
    file.write_text(json.dumps(content))
    found = covopt.cp_rank(A, time_limit_s=0.5, checkpoint=file)
    assert found.lower <= RANK
    assert found.upper is None or found.upper >= RANK
    assert all(check.ok for check in found.verify())


def test_what_cannot_be_gone_on_with_is_said(tmp_path, monkeypatch):
    file = tmp_path / "c.checkpoint"
    stopped_at(2, file, monkeypatch)
    for change, said in (({"A": M7}, "of another problem: A differs"), ({"tol": 1e-8}, "tol differs")):
        with pytest.raises(InputError, match=said):
            covopt.cp_rank(**{"A": A, "checkpoint": file, **change})
    with FileLock(f"{file}.lock"), pytest.raises(InputError, match="another process writes the checkpoint"):
        covopt.cp_rank(A, checkpoint=file)
    file.write_text(json.dumps(json.loads(file.read_text()) | {"readings": 3}))
    with pytest.raises(SolutionFileError, match="is damaged"):
        covopt.cp_rank(A, checkpoint=file)


def test_small_matrices_by_the_command_on_a_full_disk_and_before_the_result_is_saved(tmp_path, monkeypatch):
    kept = covopt.Checkpoint(tmp_path / "c.checkpoint", keep=True)  # who saves the result removes it
    for _ in range(2):
        assert covopt.cp_rank(SMALL, checkpoint=kept).upper == 3 and kept.path.exists()
    table, out = tmp_path / "A.csv", tmp_path / "c.json"
    table.write_text("\n".join(",".join(map(str, row)) for row in SMALL))
    with monkeypatch.context() as patched:
        interrupt_at(patched, 1)
        first = run("cp-rank", table, "--out", out)
    assert first.exit_code == 3 and "the same command with --resume goes on from" in first.output
    assert run("verify", out).exit_code == 0
    second = run("cp-rank", table, "--out", out, "--resume")
    assert second.exit_code == 0 and "CP-rank    3" in second.output
    fill_disk(monkeypatch)
    file = covopt.Checkpoint(tmp_path / "d.checkpoint", every_s=0.0)
    with pytest.warns(
        CheckpointWarning, match="could not be written: No space left on device; the run goes on"
    ):
        assert covopt.cp_rank(SMALL, checkpoint=file).upper == 3
