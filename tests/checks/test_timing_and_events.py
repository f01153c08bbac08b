"""Where the time went, what is said to people and logged for programs."""

import json
import logging
import os
import time
from itertools import count
from unittest.mock import Mock

import numpy as np
import pytest

import covopt
from covopt.checks.log import Stopwatch, logged, logger, stage, stop_log, timing, write_events
from covopt.datasets import load_digit_images
from covopt.errors import CovoptWarning, InputError, SolutionFileError
from covopt.limits import compiling, now
from covopt.oracles.cascade import exact_oracle
from covopt.parallel import available_threads

X = [[-1.0, 0.5], [0.0, 2.0], [1.0, -1.0], [2.0, 0.0]]
Y = [1.0, 0.0, 1.0, -1.0]
USUAL = {"certificate", "pricing"}
SOLVES = {
    "min_norm": (lambda: covopt.min_norm(X, Y), USUAL),
    "label_noise": (lambda: covopt.min_norm(X, Y, potential="label-noise"), USUAL),
    "fit": (lambda: covopt.fit(X, Y, lam=0.1), USUAL),
    "path": (lambda: covopt.path(X, Y, n_lams=2)[1], USUAL),
    "frank_wolfe": (lambda: covopt.frank_wolfe(X, Y), USUAL),
}


def third():
    """A callback that stops at what is found third: that takes as long as it takes."""
    calls = count(1)
    return {"time_limit_s": 60.0, "callback": lambda entry: next(calls) == 3}


DEEP = {
    "deep cost": (lambda: covopt.representation_cost(X, Y, depth=3, **third()), {"closed bounds", "descent"}),
    "deep fit": (lambda: covopt.fit(X, Y, lam=0.1, depth=3, **third()), {"shallow optimum", "descent"}),
}


@pytest.mark.parametrize("name", [*SOLVES, *DEEP])
def test_the_stages_sum_to_the_time_of_the_solve_and_are_kept_in_the_file(name, tmp_path, processor_clock):
    ask, known = (SOLVES | DEEP)[name]
    for function in ("min_norm", "fit", "path", "frank_wolfe", "representation_cost"):
        getattr(covopt, function)  # imported when it is first named: no part of the solve
    began = now()
    solution = ask()
    took = now() - began
    stages = {key: spent for key, spent in solution.timings.items() if key != "compiling"}
    assert known <= set(stages)
    assert min(stages.values()) >= 0.0
    assert sum(stages.values()) == pytest.approx(solution.time_s, abs=2e-3)
    if name in SOLVES:
        assert list(stages.values()) == sorted(stages.values(), reverse=True)
        if name != "path":  # of which it is the second point
            # compilation, which now() does not count, has a stage of its own
            assert took - 0.1 < sum(stages.values()) <= took
    solution.save(tmp_path / "file.json")
    assert covopt.load(tmp_path / "file.json").timings == solution.timings
    content = solution.to_dict()
    del content["timings"]  # a file of an earlier version
    assert type(solution).from_dict(content).timings == {}
    for wrong in (
        ([], {"pricing": -1.0}, {"pricing": "long"}, {"pricing": float("inf")}) if name == "fit" else ()
    ):
        with pytest.raises(SolutionFileError, match="'timings' must be an object of seconds"):
            covopt.Solution.from_dict({**content, "timings": wrong})


def test_a_stage_within_another_one_stops_its_clock():
    clock = [0.0]

    def tick(seconds):
        clock[0] += seconds

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("covopt.checks.log.now", lambda: clock[0])
        patch.setattr(compiling, "spells", [])  # of the tests before this one
        watch = Stopwatch(0.0)
        tick(1.0)
        watch.enter("master")
        tick(2.0)
        watch.enter("pricing")
        tick(4.0)
        watch.leave()
        tick(8.0)
        watch.leave()
        tick(16.0)
        assert watch.seconds() == {"rest": 16.0, "master": 10.0, "pricing": 4.0, "preparing": 1.0}


def test_what_is_compiled_before_the_first_stage_is_counted(monkeypatch):
    monkeypatch.setattr(compiling, "announced", True)
    began = now()
    compiling.start()
    time.sleep(0.02)
    compiling.end()
    with timing(began) as watch:
        assert watch.seconds()["compiling"] >= 0.02
        assert watch.seconds()["preparing"] < 0.02
    assert "compiling" not in Stopwatch(now()).seconds()


def test_a_stage_ends_where_an_interrupt_leaves_it():
    with timing(now()) as watch:
        with pytest.raises(KeyboardInterrupt), stage("pricing"):
            raise KeyboardInterrupt
        before = watch.seconds()["pricing"]
        assert watch.seconds()["pricing"] == before
    with stage("alone"):  # no solve around it
        pass
    assert "alone" not in watch.seconds()


@pytest.fixture
def events(tmp_path):
    handler = write_events(tmp_path / "log.jsonl")
    yield lambda: [json.loads(line) for line in (tmp_path / "log.jsonl").read_text("utf-8").splitlines()]
    stop_log(handler)
    assert (logger.handlers, logger.level) == ([], logging.NOTSET)


def test_every_round_is_one_line_of_json_and_the_result_is_the_last(events):
    solution = covopt.min_norm(X, Y)
    said = events()
    rounds = [line for line in said if line["event"] == "round"]
    assert [line["round"] for line in rounds] == list(range(len(solution.history)))
    for line, kept in zip(rounds, solution.history, strict=True):
        assert {name: line[name] for name in kept} == kept
    result = [line for line in said if line["event"] == "result"]
    assert len(result) == 1
    assert result[0]["status"] == "certified"
    assert (result[0]["lower_bound"], result[0]["time_s"]) == (solution.lower_bound, solution.time_s)
    assert (said[-2]["event"], said[-2]["seconds"]) == ("timings", solution.timings)
    assert all(line["time"].endswith("+00:00") for line in said)
    found = covopt.frank_wolfe(X, Y)  # its iterations are logged, too
    again = [line["round"] for line in events()[len(said) :] if line["event"] == "round"]
    assert again == [each["iteration"] for each in found.history]


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="has no full disk")
def test_a_log_on_a_full_disk_ends_in_one_warning():
    handler = write_events("/dev/full")
    try:
        with pytest.warns(CovoptWarning, match="No space left on device; it ends here") as said:
            for _ in range(3):
                logger.info("something")
    finally:
        stop_log(handler)
    assert len(said) == 1


# ---- what people see and hold: one line for each object, tables for notebooks, words, networks of lists.


# ---------------------------------------------------------------------- words
def test_verbose(capsys, caplog):
    covopt.min_norm(X, Y, verbose=1)
    said = capsys.readouterr().err
    assert said.startswith("covopt Solution(certified")
    assert said.count("\n") == 1
    covopt.fit(X, Y, lam=0.01, verbose=2)
    said = capsys.readouterr().err.splitlines()
    assert said[0].startswith("covopt round 0: ")
    assert said[-1].startswith("covopt Solution(certified, λ 0.01")
    covopt.path(X, Y, n_lams=2, verbose=1)
    assert capsys.readouterr().err.count("covopt Solution(") == 2
    covopt.min_norm(X, Y)
    assert capsys.readouterr().err == ""
    with pytest.raises(RuntimeError), logged(2):
        raise RuntimeError
    assert (logger.handlers, logger.level) == ([], logging.NOTSET)
    with caplog.at_level(logging.DEBUG, logger="covopt"):
        covopt.min_norm(X, Y)
    assert {record.levelname for record in caplog.records} == {"DEBUG", "INFO"}


def test_threads_are_those_of_the_machine(monkeypatch):
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {0, 1, 2, 3, 4}, raising=False)
    assert available_threads() == exact_oracle(np.eye(2), 0).n_threads == 5
    monkeypatch.setenv("OMP_NUM_THREADS", "2")
    assert available_threads() == 2
    monkeypatch.setenv("OMP_NUM_THREADS", "many")
    assert available_threads() == 5


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

    monkeypatch.setattr(sklearn.datasets, "fetch_openml", Mock(side_effect=OSError("no route to host")))
    with pytest.raises(InputError, match=r"MNIST could not be fetched from OpenML \(no route to host\)"):
        load_digit_images(source="mnist")
