"""Real schedulers and workers on the loopback: the same answers, workers that die and join, a scheduler lost."""

import contextlib
import json
import socket
import subprocess
import sys

import numpy as np
import pytest
from joblib import parallel_config
from typer.testing import CliRunner

import covopt
import covopt.oracles.cones.search as boxes
from covopt.arrangement import enumeration
from covopt.cli import app
from covopt.cli import cluster as connecting
from covopt.errors import ClusterError, ClusterWarning
from covopt.oracles.cones import box_gauge
from covopt.oracles.cones.fan import fan_gauge
from covopt.parallel.cluster import Cluster

distributed = pytest.importorskip("distributed")
WAIT_S = 30.0


class Processes:
    """A scheduler and its workers, each a process."""

    def __init__(self, n_workers: int):
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        self.address = f"tcp://127.0.0.1:{port}"
        self.scheduler = self._start("scheduler", "--host", "127.0.0.1", "--port", str(port), "--no-show")
        self.workers = []
        for _ in range(n_workers):
            self.add()

    def _start(self, what: str, *arguments: str):
        command = [sys.executable, "-m", f"distributed.cli.dask_{what}", *arguments, "--no-dashboard"]
        return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def add(self) -> None:
        options = ("--nthreads", "1", "--no-nanny", "--host", "127.0.0.1", "--death-timeout", "60")
        self.workers.append(self._start("worker", self.address, *options))

    def end(self) -> None:
        for process in [self.scheduler, *self.workers]:
            process.kill()
        for process in [self.scheduler, *self.workers]:
            process.wait()


@contextlib.contextmanager
def cluster(n_workers: int):
    """Yield the processes and a client of them."""
    processes = Processes(n_workers)
    try:
        client = distributed.Client(processes.address, timeout=WAIT_S, set_as_default=False)
        client.wait_for_workers(n_workers, timeout=WAIT_S)
        try:
            yield processes, client
        finally:
            with contextlib.suppress(Exception):
                client.close(timeout=2)
    finally:
        processes.end()


@pytest.fixture
def everything_is_sent(monkeypatch):
    """Small work goes to the cluster, in small parts, as large work does."""
    monkeypatch.setattr(boxes, "WORTH_SENDING", 1)
    monkeypatch.setattr(enumeration, "_LARGEST_PART", 1000)


def table(n: int, d: int, seed: int = 0):
    rng = np.random.default_rng(seed)
    return rng.standard_normal((n, d)), rng.standard_normal(n)


def test_a_cluster_finds_the_same_and_its_loss_keeps_the_bracket(everything_is_sent, tmp_path):
    X, y = table(14, 3)
    known = covopt.min_norm(X, y)
    rows = np.column_stack([X, np.ones(len(X))])
    gauge = box_gauge(rows, known.dual, rtol=1e-9)
    with cluster(1) as (processes, client), parallel_config("dask", client=client):
        told, submit = [], client.submit
        client.submit = lambda *args, key: told.append(key.split("-")[1]) or submit(*args, key=key)
        assert covopt.min_norm(X, y).lower_bound == known.lower_bound
        assert told
        again = box_gauge(rows, known.dual, rtol=1e-9)
        assert again.upper_bound == gauge.upper_bound
        assert np.array_equal(again.tree, gauge.tree)
        assert "walk_away" in told

        file = tmp_path / "run.checkpoint"

        def lose(state):
            if state.round == 3:
                processes.scheduler.kill()

        with pytest.warns(
            ClusterWarning, match=r"the Dask cluster was lost: its scheduler .*bracket so far is kept"
        ):
            left = covopt.min_norm(X, y, callback=lose, checkpoint=file)
        assert left.status == "interrupted"
        assert 0 < left.lower_bound <= known.lower_bound * (1 + 1e-12) <= left.cost * (1 + 1e-6)
        assert covopt.verify(left).ok  # here: nothing is sent to a cluster that is lost
    assert covopt.min_norm(X, y, checkpoint=covopt.Checkpoint(file)).status == "certified"


def run(*arguments):
    return CliRunner().invoke(app, [str(a) for a in arguments])


def test_what_is_no_cluster_is_said(tmp_path, monkeypatch):
    (tmp_path / "t.csv").write_text("a,y\n0,1\n1,0\n")
    monkeypatch.setattr(connecting, "CONNECT_S", 0.2)
    for address, said in (
        ("here", "--cluster must be local or an address as tcp://host:8786; received here."),
        ("tcp://127.0.0.1:1", "no Dask scheduler answers at tcp://127.0.0.1:1"),
        ("http://127.0.0.1:1", "unknown address scheme 'http'"),
        ("tcp://", "no Dask scheduler answers at tcp:// (missing port"),
        ("tls://127.0.0.1:1", "no Dask scheduler answers at tls://127.0.0.1:1"),
    ):
        result = run("solve", tmp_path / "t.csv", "--target", "y", "--cluster", address)
        assert result.exit_code == 1
        assert said in result.output


@pytest.mark.slow
def test_workers_that_die_and_join(everything_is_sent, monkeypatch):
    X, y = table(30, 5)
    rows = np.column_stack([X, np.ones(len(X))])
    dual = covopt.fit(X, y, lam="0.01max", tol=1e-2).dual.reshape(-1)
    monkeypatch.setattr(boxes, "LARGEST_SLICE", 2048)
    here = box_gauge(rows, dual, rtol=1e-7)
    cells = covopt.enumerate_cells(rows)
    assert here.nodes > 50_000
    with cluster(2) as (processes, client), parallel_config("dask", client=client):
        submit, sent = client.submit, []

        def count(*arguments, **options):
            sent.append(1)
            if len(sent) == 3:
                processes.workers[0].kill()
            if len(sent) == 6:
                processes.add()
            if len(sent) == 10:
                processes.workers[1].kill()
            return submit(*arguments, **options)

        client.submit = count
        there = box_gauge(rows, dual, rtol=1e-7)
        assert len(sent) > 12
        assert there.upper_bound == here.upper_bound
        assert np.array_equal(there.tree, here.tree)
        found = covopt.enumerate_cells(rows)
        assert set(map(bytes, found.packed)) == set(map(bytes, cells.packed))
        assert len(found) == len(cells)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["tcp", "local"])
def test_every_command_finds_the_same(kind, everything_is_sent, tmp_path, monkeypatch):
    X, y = table(12, 3)
    np.savetxt(tmp_path / "t.csv", np.column_stack([X, y]), delimiter=",", header="a,b,c,y", comments="")
    with cluster(2) if kind == "tcp" else contextlib.nullcontext((None, None)) as (processes, _):
        address = "local" if processes is None else processes.address
        told, send = [], Cluster.map
        monkeypatch.setattr(Cluster, "map", lambda *a, **k: told.append(1) or send(*a, **k))
        for words, outputs in (
            (("solve", "t.csv", "--target", "y", "--out"), "s.json"),
            (("fit", "t.csv", "--target", "y", "--lam", "0.1", "--out"), "f.json"),
            (("path", "t.csv", "--target", "y", "--n-lams", "4", "--out"), "l.json"),
            (("cells", "t.csv", "--target", "y", "--out"), "c.npy"),
            (("prove", "s.json", "--out"), "q.json"),
            (("train", "t.csv", "--target", "y", "--lam", "0.1", "--cross-check", "--widths", "4", "--seeds", "8",
              "--steps", "200", "--out"), "n.csv"),
        ):  # fmt: skip
            told.clear()
            for folder, more in (("here", ()), ("there", ("--cluster", address))):
                (tmp_path / folder).mkdir(exist_ok=True)
                out = tmp_path / folder / outputs
                name = tmp_path / (f"{folder}/{words[1]}" if words[1] == "s.json" else words[1])
                result = run(words[0], name, *words[2:], out, "--json", *more)
                assert result.exit_code == 0, result.output
            assert told, words
            here, there = tmp_path / "here" / outputs, tmp_path / "there" / outputs
            if outputs.endswith(".npy"):
                assert {*map(bytes, np.load(here))} == {*map(bytes, np.load(there))}
                assert len(np.load(here)) == len(np.load(there))
                continue
            if outputs.endswith(".csv"):
                own, other = (np.genfromtxt(file, delimiter=",", names=True) for file in (here, there))
                assert list(own["floor"]) == list(other["floor"])
                np.testing.assert_allclose(own["cost"], other["cost"], rtol=1e-6)
                continue
            assert without_times(json.loads(here.read_text())) == without_times(json.loads(there.read_text()))
        where = ("--exact", "--json", "--cluster", address)
        result = run("verify", tmp_path / "there" / "s.json", tmp_path / "t.csv", *where)
        assert result.exit_code == 0, result.output


def without_times(content):
    """A solution's file but for the clock."""
    if isinstance(content, dict):
        return {k: without_times(v) for k, v in content.items() if "tim" not in k}
    return [without_times(each) for each in content] if isinstance(content, list) else content


@pytest.mark.slow
def test_several_outputs_send_the_boxes_of_their_directions(everything_is_sent):
    X, _ = table(12, 4)
    dual = np.random.default_rng(1).standard_normal((12, 2))

    def ask(one):
        return box_gauge(X, one, rtol=1e-4, max_nodes=10**5).upper_bound

    options = {"max_calls": 12, "best": 0.0}
    here = fan_gauge(X, dual, ask, **options)
    with cluster(1) as (_, client), parallel_config("dask", client=client):
        told, submit = [], client.submit
        client.submit = lambda *args, key: told.append(key.split("-")[1]) or submit(*args, key=key)
        assert fan_gauge(X, dual, ask, **options) == here
        assert "walk_away" in told


@pytest.mark.slow
def test_a_command_saves_its_bracket_and_goes_on_without_the_cluster(
    everything_is_sent, tmp_path, monkeypatch, capfd
):
    X, y = table(12, 3)
    np.savetxt(tmp_path / "t.csv", np.column_stack([X, y]), delimiter=",", header="a,b,c,y", comments="")
    solve = (
        "solve",
        tmp_path / "t.csv",
        "--target",
        "y",
        "--out",
        tmp_path / "s.json",
        "--checkpoint-every",
        "0",
    )
    with cluster(1) as (processes, _):
        spread, calls = Cluster.spread, []

        def lose(*arguments, **options):
            calls.append(1)
            if len(calls) == 2:
                processes.scheduler.kill()
            return spread(*arguments, **options)

        monkeypatch.setattr(Cluster, "spread", lose)
        result = run(*solve, "--cluster", processes.address)
    assert result.exit_code == 3, result.output
    assert "warning: the Dask cluster was lost" in result.output
    assert "--resume goes on from" in result.output
    assert "Traceback" not in result.output + capfd.readouterr().err
    left = covopt.load(tmp_path / "s.json")
    assert left.status == "interrupted"
    assert covopt.verify(left).ok
    result = run(*solve, "--resume")
    assert result.exit_code == 0, result.output
    assert covopt.load(tmp_path / "s.json").lower_bound >= left.lower_bound

    with cluster(1) as (processes, client), parallel_config("dask", client=client):
        processes.scheduler.kill()
        with pytest.raises(ClusterError, match="start it again, or leave it out"):
            covopt.enumerate_cells(X)


@pytest.mark.slow
def test_a_cluster_of_this_machine(tmp_path):
    X, y = table(40, 3)
    np.savetxt(tmp_path / "t.csv", np.column_stack([X, y]), delimiter=",", header="a,b,c,y", comments="")
    told = []
    for more in ((), ("--cluster", "local")):
        command = [sys.executable, "-m", "covopt", "cells", "t.csv", "--target", "y", "--json", *more]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True, timeout=300)
        told.append(json.loads(done.stdout)["n_cells"])
        assert done.stderr == ""
    assert told[0] == told[1]
