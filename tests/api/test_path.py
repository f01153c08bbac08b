import numpy as np
import pytest

import covopt
from covopt.certificates.certify import conclude
from covopt.errors import PathStoppedWarning
from tests.solvers.test_regularised import targets_for


def table(name, n=12, seed=0):
    rng = np.random.default_rng(seed)
    return rng.standard_normal((n, 2)), targets_for(name, n, rng)


def test_a_stopped_path_says_where():
    X, y = table("squared", 12)
    calls = []

    def stop(state):
        calls.append(state)
        return len(calls) == 8

    with pytest.warns(PathStoppedWarning, match=r"stopped at lam = .*; \d of 6 points are certified"):
        some = covopt.path(X, y, n_lams=6, callback=stop)
    assert 0 < len(some) < 6
    assert some[-1].status.code == "callback"
    assert all(s.status.code == "certified" for s in some[:-1])
    with pytest.warns(PathStoppedWarning, match="time limit"):
        assert len(covopt.path(X, y, n_lams=6, time_limit_s=1e-9)) <= 1

    def interrupt(state):
        raise KeyboardInterrupt

    with pytest.warns(PathStoppedWarning, match="interrupted"):
        assert covopt.path(X, y, lams=[0.1, 0.01], callback=interrupt)[-1].status.code == "interrupted"


def test_an_interrupted_certificate_does_not_cost_the_path(monkeypatch):
    """Ctrl-C may come between the rounds of two points, where no solver is there to catch it."""
    X, y = table("squared", 12)
    calls = []

    def interrupted(*arguments, **problem):
        calls.append(arguments)
        if len(calls) in stop:
            raise KeyboardInterrupt
        return conclude(*arguments, **problem)

    monkeypatch.setattr("covopt.api.run.conclude", interrupted)
    for at, done in ((3, 2), (1, 0)):
        stop = [at]
        calls.clear()
        with pytest.warns(PathStoppedWarning, match=f"{done} of 5 points are certified"):
            found = covopt.path(X, y, n_lams=5)
        assert [s.status.code for s in found] == ["certified"] * done + ["interrupted"]
        assert covopt.verify(found[-1]).ok  # its bracket holds
