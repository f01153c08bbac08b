"""A run that is interrupted and taken up again is bit by bit the run that was not."""

import json

import numpy as np
import pytest
from filelock import FileLock

torch = pytest.importorskip("torch")

from covopt.checks.memory import memory_limited  # noqa: E402
from covopt.errors import CheckpointWarning, InputError  # noqa: E402
from covopt.training import Phase, checkpoint, train  # noqa: E402

RNG = np.random.default_rng(0)
X, Y = RNG.standard_normal((12, 2)), RNG.standard_normal(12)
SCHEDULE = [
    Phase("label-noise-sgd", 110, learning_rate=0.01),
    Phase("sgd", 110, batch_size=3, momentum=0.5),
    Phase("adam", 210, decay="cosine"),
    Phase("lbfgs", 110),
    Phase("gd", 110, learning_rate=1e-3),
]
OPTIONS = dict(widths=[3, 8], lam=[0.0, 0.02], learning_rate=[0.01, 1e3], seeds=2)  # half of them diverge


def run(path=None, *, stop_at=None, resume=False, **changes):
    options = {**OPTIONS, "schedule": SCHEDULE, "record_every": 30, **changes}
    callback = None if stop_at is None else (lambda state: state.step >= stop_at)
    return train(X, options.pop("Y", Y), checkpoint=path, resume=resume, callback=callback, **options)


@pytest.fixture(scope="module")
def uninterrupted():
    return run()


@pytest.mark.parametrize("stops", [(1,), (120, 310), (410, 500), (530,)])
def test_resumed_runs_are_bitwise_the_uninterrupted_one(tmp_path, uninterrupted, stops):
    path = tmp_path / "run.safetensors"
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


def test_checkpoints_are_written_on_the_way(tmp_path, monkeypatch):
    written = []
    original = checkpoint.write

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

    def fail(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("covopt.files.atomic.os.replace", fail)
    with pytest.warns(
        CheckpointWarning, match=r"run could not be written: No space left on device; training goes on"
    ):
        found = run(path, resume=True)
    assert len(found.table)  # and the networks are there
    assert path.read_bytes() == before
    assert [p.name for p in tmp_path.iterdir()] == ["run"]


def test_two_runs_do_not_share_a_checkpoint(tmp_path):
    with (
        FileLock(f"{tmp_path / 'run'}.lock"),
        pytest.raises(InputError, match=r"another process writes .*run"),
    ):
        run(tmp_path / "run")


def test_a_missing_checkpoint_starts_anew(tmp_path):
    found = train(X, Y, widths=3, schedule=Phase("adam", 50), checkpoint=tmp_path / "new", resume=True)
    plain = train(X, Y, widths=3, schedule=Phase("adam", 50))
    assert (found.weights[0][0] == plain.weights[0][0]).all()
    assert (tmp_path / "new").exists()


CHANGES = {
    "Y": (dict(Y=Y + 1.0), "Y"),
    "widths": (dict(widths=[3, 9]), "widths"),
    "lam": (dict(lam=[0.0, 0.03]), "lam"),
    "rates": (dict(learning_rate=[0.01, 0.02]), "learning_rate"),
    "seeds": (dict(seeds=[0, 5]), "seeds"),
    "schedule": (dict(schedule=SCHEDULE[:2]), "schedule"),
    "loss": (dict(loss="huber", schedule=SCHEDULE[1:]), "loss and schedule"),
    "bias": (dict(bias=2.0), "bias"),
    "dtype": (dict(dtype="float32"), "dtype"),
    "state": (dict(random_state=3), "random_state"),
    "weights": (dict(sample_weight=np.arange(12.0)), "sample_weight"),
    "slope": (dict(slope=0.1), "slope"),
    "several": (
        dict(scale=0.5, tol_gradient=1e-3, record_every=None),
        "scale, tol_gradient and record_every",
    ),
}


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    path = tmp_path_factory.mktemp("checkpoint") / "run"
    run(path, stop_at=1)
    return path


@pytest.mark.parametrize("name", CHANGES)
def test_a_checkpoint_of_another_problem_is_refused(written, name):
    changes, named = CHANGES[name]
    message = f"checkpoint {written} belongs to another problem: other {named}; give what it was "
    message += "written with, or another path."
    with pytest.raises(InputError) as caught:
        run(written, resume=True, **changes)
    assert str(caught.value) == message


def test_the_number_of_networks_may_differ_too(written):
    with pytest.raises(InputError, match="other number of networks and widths; give"):
        run(written, resume=True, widths=[3])


def test_an_existing_checkpoint_is_not_overwritten(written):
    message = f"checkpoint {written} exists; go on from it with resume=True, or delete it to start anew."
    with pytest.raises(InputError) as caught:
        run(written)
    assert str(caught.value) == message


def test_files_that_are_no_checkpoints(tmp_path):
    path = tmp_path / "run"
    message = f"{path} is not a checkpoint of covopt, or it is damaged; give another path."
    from safetensors.torch import save_file

    run(path, stop_at=1)
    whole = path.read_bytes()
    damaged = [b"", b"nonsense", whole[: len(whole) // 2]]
    for content in damaged:
        path.write_bytes(content)
        with pytest.raises(InputError) as caught:
            run(path, resume=True)
        assert str(caught.value) == message
    for metadata in (None, {"covopt": "{}"}, {"covopt": json.dumps({"format": "other"})}):
        save_file({"a": torch.zeros(1)}, path, metadata)
        with pytest.raises(InputError) as caught:
            run(path, resume=True)
        assert str(caught.value) == message
    save_file(
        {"a": torch.zeros(1)}, path, {"covopt": json.dumps({"format": checkpoint.FORMAT, "schema": 99})}
    )
    with pytest.raises(InputError) as caught:
        run(path, resume=True)
    assert (
        str(caught.value)
        == f"checkpoint {path}: the file has schema 99; this covopt reads 2. Upgrade covopt. Or start anew."
    )


def test_paths_that_cannot_be():
    cases = [
        (
            dict(resume=True),
            "resume=True needs the path of the checkpoint: give checkpoint='run.safetensors'.",
        ),
        (dict(path="/"), "checkpoint / is a folder; give the path of a file."),
        (
            dict(path="/nowhere/run"),
            "cannot write the checkpoint /nowhere/run: the folder /nowhere does not exist.",
        ),
        (dict(path=3), "checkpoint must be a path; received 3."),
        (dict(resume="yes"), "resume must be True or False; received 'yes'."),
    ]
    for options, message in cases:
        with pytest.raises(InputError) as caught:
            run(**options)
        assert str(caught.value) == message


def test_a_changed_checkpoint_is_refused(tmp_path):
    """A tensor or a number of another kind ended in an error of the optimiser, or in another run."""
    from safetensors import safe_open
    from safetensors.torch import load, save

    path = tmp_path / "run.safetensors"
    run(path, stop_at=310)
    raw = path.read_bytes()
    with safe_open(path, framework="pt") as archive:
        about = json.loads(archive.metadata()["covopt"])

    def without(name):
        return lambda a, t: t.pop(name)

    def instead(name, change):
        return lambda a, t: t.__setitem__(name, change(t[name]))

    state = next(name for name in load(raw) if ".state." in name)
    changes = [
        without(state), without("weights"), without("history.0.index"), without("batch.0.theta"),
        instead(state, lambda t: t.reshape(-1)[1:].clone()), instead("weights", lambda t: t + 1e-9),
        instead("status", lambda t: t - 10), instead("status", lambda t: t * 0.5),
        instead("history.0.values", lambda t: t[1:].clone()), instead("batch.0.index", lambda t: t + 100),
        lambda a, t: a.update(phase=a["phase"] + 1), lambda a, t: a.update(step=-1),
        lambda a, t: a.update(n_batches=10**6), lambda a, t: a.update(history=[[0]]),
        lambda a, t: a.update(fingerprint=[]), lambda a, t: a.pop("digest"), lambda a, t: a.update(digest="0"),
    ]  # fmt: skip
    for change in changes:
        words, tensors = json.loads(json.dumps(about)), load(raw)
        change(words, tensors)
        path.write_bytes(save(tensors, {"covopt": json.dumps(words)}))
        with pytest.raises(InputError, match=r"is damaged"):
            run(path, resume=True)
    for cut in (0, 7, 8, 100, len(raw) - 1):
        path.write_bytes(raw[:cut])
        with pytest.raises(InputError, match="is not a checkpoint of covopt, or it is damaged"):
            run(path, resume=True)


def test_networks_that_do_not_fit_into_memory_are_refused():
    with (
        memory_limited(0.001),
        pytest.raises(InputError, match=r"needs about 0\.0\d+ GiB of memory; .* Train fewer"),
    ):
        train(X, Y, widths=64, seeds=200)
