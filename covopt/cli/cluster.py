"""Where a command's parts go: ``--cluster``, an address of a Dask scheduler or processes of this machine."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from typing import Any

from covopt.errors import ClusterError, InputError
from covopt.parallel import available_threads

LOCAL = "local"
NOISY = ("asyncio", "distributed", "tornado")  # loggers that print tracebacks of a connection that is lost
CONNECT_S = 10.0  # to a scheduler, and to its first worker
CLOSE_S = 5.0


@contextmanager
def on_cluster(address: str | None) -> Iterator[None]:
    """Let the block's parts go to a cluster; the answer is the one that this machine would find.

    Parameters
    ----------
    address : str or None
        None for no cluster.

    Raises
    ------
    InputError
        For what is no address.
    ClusterError
        Where no scheduler answers, it has no workers, or they have another version of covopt.
    """
    if address is None:
        yield
        return
    if address != LOCAL and "://" not in address:
        raise InputError(f"--cluster must be local or an address as tcp://host:8786; received {address}.")
    from covopt.checks.optional import required

    distributed = required("distributed", "--cluster", "dask")
    from joblib import parallel_config

    for name in ["asyncio", "distributed", *logging.root.manager.loggerDict]:  # some have levels of their own
        if name.partition(".")[0] in NOISY:
            logging.getLogger(name).setLevel(logging.CRITICAL + 1)  # one sentence of ours says what happened
    with ExitStack() as closing:
        client = (
            _local(distributed, closing) if address == LOCAL else _connected(distributed, address, closing)
        )
        _check_versions(client)
        with parallel_config("dask", client=client):
            yield


def _local(distributed: Any, closing: ExitStack) -> Any:
    cluster = distributed.LocalCluster(
        n_workers=available_threads(), threads_per_worker=1, processes=True, dashboard_address=None,
    )  # fmt: skip
    closing.callback(_quietly, cluster.close, CLOSE_S)
    client = distributed.Client(cluster, set_as_default=False)
    closing.callback(_quietly, client.close, CLOSE_S)
    return client


def _connected(distributed: Any, address: str, closing: ExitStack) -> Any:
    try:
        asyncio.run(_answer(distributed, address))  # a client that finds nobody cannot be closed in silence
        client = distributed.Client(address, timeout=CONNECT_S, set_as_default=False)
    except Exception as error:  # refusals, unknown schemes, missing certificates: each has its own
        said = str(error).partition("\n")[0] or type(error).__name__
        raise ClusterError(
            f"no Dask scheduler answers at {address} ({said:.80}): start one with `dask scheduler`."
        ) from None
    closing.callback(_quietly, client.close, CLOSE_S)
    try:
        client.wait_for_workers(1, timeout=CONNECT_S)
    except TimeoutError:
        raise ClusterError(
            f"the cluster at {address} has no workers: start some with `dask worker {address} --nthreads 1 "
            "--nworkers auto`."
        ) from None
    return client


async def _answer(distributed: Any, address: str) -> None:
    comm = await distributed.comm.connect(address, timeout=CONNECT_S)
    await comm.close()


def _check_versions(client: Any) -> None:
    """Refuse workers whose covopt is another one: their parts would not be those of this machine."""
    own = _version()
    for worker, version in client.run(_version, on_error="return").items():
        if version != own:
            told = version if isinstance(version, str) else "none that could be imported"
            raise ClusterError(f"the worker {worker} has another covopt ({told}) than this machine ({own}).")


def _version() -> str:
    from covopt import __version__

    return __version__


def _quietly(close: Any, timeout: float) -> None:
    with suppress(Exception):  # what is lost cannot be closed
        close(timeout=timeout)
