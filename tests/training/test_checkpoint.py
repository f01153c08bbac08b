"""A run that is interrupted and taken up again goes on from its networks, at their place in the schedule."""

from unittest.mock import Mock

import numpy as np
import pytest
from filelock import FileLock

from tests.cases import cases

torch = pytest.importorskip("torch")

from covopt.checks.memory import memory_limited  # noqa: E402
from covopt.errors import CheckpointWarning, InputError  # noqa: E402
from covopt.training import Phase, runner, train  # noqa: E402

RNG = np.random.default_rng(0)
X, Y = RNG.standard_normal((12, 2)), RNG.standard_normal(12)
SCHEDULE = [  # nothing is remembered from step to step
    Phase("label-noise-sgd", 110, learning_rate=0.01),
    Phase("sgd", 110, batch_size=3),
    Phase("gd", 210, learning_rate=1e-3, decay="cosine"),
]
OPTIONS = dict(widths=[3, 8], lam=[0.0, 0.02], learning_rate=[0.01, 1e3], seeds=2)  # half of them diverge


def run(path=None, *, stop_at=None, resume=False, **changes):
    options = {**OPTIONS, "schedule": SCHEDULE, "record_every": 30, **changes}
    callback = None if stop_at is None else (lambda state: state.step >= stop_at)
    return train(X, options.pop("Y", Y), checkpoint=path, resume=resume, callback=callback, **options)


@pytest.fixture(scope="module")
def uninterrupted():
    return run()


@pytest.mark.parametrize("stops", [(120, 410), (1,)])
def test_resumed_runs_are_bitwise_the_uninterrupted_one(tmp_path, uninterrupted, stops):
    path = tmp_path / "run"
    for place, stop in enumerate(stops):
        run(path, stop_at=stop, resume=place > 0)
    found = run(path, resume=True)
    assert found.status == uninterrupted.status
    assert set(found.status) >= {"diverged"}
    for a, b in zip(found.weights, uninterrupted.weights, strict=True):
        assert all((p == q).all() for p, q in zip(a, b, strict=True))
    assert found.steps.tolist() == uninterrupted.steps.tolist()
    assert found.history.equals(uninterrupted.history)
    again = run(path, resume=True)  # nothing is left to do
    assert again.table.drop(columns="time_s").equals(found.table.drop(columns="time_s"))


def test_optimisers_that_remember_begin_anew_and_end_as_well(tmp_path):
    options = {
        "schedule": [Phase("adam", 300, decay="cosine"), Phase("lbfgs", 60)],
        "seeds": 4,
        "widths": 30,
    }
    options |= {"lam": 0.02, "learning_rate": 0.01}
    whole = run(**options)
    for place, stop in enumerate((150, 330)):
        stopped = run(tmp_path / "run", stop_at=stop, resume=place > 0, **options)
        assert stopped.steps.max() <= stop + 50
    found = run(tmp_path / "run", resume=True, **options)
    assert found.complete and found.steps.max() > 300
    np.testing.assert_allclose(found.objectives.min(), whole.objectives.min(), rtol=0.01)
    assert (found.objectives <= stopped.objectives * (1 + 1e-12)).all()


def test_checkpoints_are_written_on_the_way(tmp_path, monkeypatch):
    written = []
    original = runner.write

    def write(*args):
        written.append(1)
        original(*args)

    monkeypatch.setattr("covopt.training.runner.write", write)
    train(X, Y, widths=3, schedule=Phase("adam", 500), checkpoint=tmp_path / "a", checkpoint_every_s=1e-9)
    assert len(written) == 6
    written.clear()
    train(X, Y, widths=3, schedule=Phase("adam", 500), checkpoint=tmp_path / "b", checkpoint_every_s=1e9)
    assert len(written) == 1
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a", "b"]  # nothing half written


def test_a_write_that_fails_keeps_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / "run"
    run(path, stop_at=100)
    before = path.read_bytes()

    monkeypatch.setattr(
        "covopt.files.atomic.os.replace", Mock(side_effect=OSError(28, "No space left on device"))
    )
    with pytest.warns(
        CheckpointWarning, match=r"run could not be written: No space left on device; training goes on"
    ):
        found = run(path, resume=True)
    assert len(found.table)  # and the networks are there
    assert path.read_bytes() == before
    assert [p.name for p in tmp_path.iterdir()] == ["run"]


CHANGES = cases("changes with which training does not go on", SCHEDULE=SCHEDULE, Y=Y)


def test_a_checkpoint_of_another_problem_is_refused(tmp_path):
    run(tmp_path / "run", stop_at=1)
    for change in CHANGES:
        with pytest.raises(InputError, match=r"run belongs to another problem; give what it was"):
            run(tmp_path / "run", resume=True, **change)


def test_files_that_are_no_checkpoints(tmp_path):
    path = tmp_path / "run"
    message = f"{path} is not a checkpoint of this covopt, or it is damaged; give another path."
    run(path, stop_at=1)
    whole, written = path.read_bytes(), path.with_name("whole")
    written.write_bytes(whole)
    damaged = [b"", b"nonsense", whole[: len(whole) // 2]]
    for content in damaged:
        path.write_bytes(content)
        with pytest.raises(InputError) as caught:
            run(path, resume=True)
        assert str(caught.value) == message
    with np.load(written) as file:
        content = dict(file)
    for name in content:
        np.savez(path, **{n: v for n, v in content.items() if n != name})
        path.with_name("run.npz").replace(path)
        with pytest.raises(InputError) as caught:
            run(path, resume=True)
        assert str(caught.value) == message


def test_checkpoints_are_one_runs_own_and_a_missing_one_starts_anew(tmp_path):
    written = tmp_path / "written"
    run(written, stop_at=1)
    message = f"checkpoint {written} exists; go on from it with resume=True, or delete it to start anew."
    with pytest.raises(InputError) as caught:
        run(written)
    assert str(caught.value) == message
    with (
        FileLock(f"{tmp_path / 'run'}.lock"),
        pytest.raises(InputError, match=r"another process writes .*run"),
    ):
        run(tmp_path / "run")
    found = train(X, Y, widths=3, schedule=Phase("adam", 50), checkpoint=tmp_path / "new", resume=True)
    plain = train(X, Y, widths=3, schedule=Phase("adam", 50))
    assert (found.weights[0][0] == plain.weights[0][0]).all() and (tmp_path / "new").exists()
    with (
        memory_limited(0.001),
        pytest.raises(InputError, match=r"needs about 0\.0\d+ GiB of memory; .* Train fewer"),
    ):
        train(X, Y, widths=64, seeds=200)
