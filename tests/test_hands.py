"""What people see and hold: one line for each object, tables for notebooks, words, networks of lists."""

import logging

import numpy as np
import pytest

import covopt
from covopt.checks.speaking import logger, speaking
from covopt.datasets import make_random_plane

X, Y = make_random_plane(8)


# ---------------------------------------------------------------------- networks


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
    with pytest.raises(RuntimeError), speaking(2):
        raise RuntimeError
    assert (logger.handlers, logger.level) == ([], logging.NOTSET)
    with caplog.at_level(logging.DEBUG, logger="covopt"):
        covopt.min_norm(X, Y)
    assert {record.levelname for record in caplog.records} == {"DEBUG", "INFO"}


def test_threads_are_those_of_the_machine(monkeypatch):
    import os

    from covopt.oracles.cascade import exact_oracle
    from covopt.parallel import available_threads

    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {0, 1, 2, 3, 4}, raising=False)
    assert available_threads() == exact_oracle(np.eye(2), 0).n_threads == 5
    monkeypatch.setenv("OMP_NUM_THREADS", "2")
    assert available_threads() == 2
    monkeypatch.setenv("OMP_NUM_THREADS", "many")
    assert available_threads() == 5
