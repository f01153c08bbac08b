"""Shared set-up: reproducible hypothesis runs, and one BLAS thread so that workers do not compete."""

import os
import time
from collections import Counter
from types import SimpleNamespace

import pytest
from hypothesis import HealthCheck, Phase, settings
from threadpoolctl import threadpool_limits

from covopt.limits import compiling

settings.register_profile(
    "covopt", deadline=None, derandomize=True, max_examples=8, print_blob=True,
    phases=[Phase.explicit, Phase.generate],  # shrinking a failure would solve for minutes
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)  # fmt: skip
settings.load_profile("covopt")

os.fsync = lambda _: None  # what tests write need not outlast a power cut


def pytest_collection_modifyitems(items):
    """Leave to the night all instances of a test that is ``thinned(k)`` but every k-th."""
    seen = Counter()
    for item in items:
        mark = item.get_closest_marker("thinned")
        if mark is not None:
            name = item.nodeid.partition("[")[0]
            if seen[name] % mark.args[0]:
                item.add_marker("slow")
            seen[name] += 1


@pytest.fixture
def processor_clock(monkeypatch):
    """Let limits count seconds of the processor: a busy machine changes nothing."""
    _wait_for_compilation()
    monkeypatch.setattr("covopt.limits.time", SimpleNamespace(perf_counter=time.process_time))
    monkeypatch.setattr("covopt.limits.compiling.spells", [])  # by the other clock
    yield
    _wait_for_compilation()


def _wait_for_compilation():
    """Let one clock count all of it: it may go on in a thread that a limit has left."""
    while compiling.depth:
        time.sleep(0.01)


@pytest.fixture(autouse=True, scope="session")
def _one_blas_thread():
    with threadpool_limits(1, user_api="blas"):
        yield
