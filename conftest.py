"""One thread a test process: the matrices are small, and ``-n 2`` has two processes to fill two cores with.

The processes share what they compile: each kernel is compiled by the first that needs it, and the others wait for it.
"""

import gc
import os
import signal
import sys
import tempfile
import threading
import time
import zlib
from pathlib import Path

import pytest
from _pytest.doctest import DoctestModule

gc.disable()  # what is imported and collected stays; a look at all of it takes half a second
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # started in the background: tests press Ctrl-C
    signal.signal(signal.SIGINT, signal.default_int_handler)

collect_ignore = ["docs/conf.py", "docs/check_links.py"]  # what builds the site needs the extra [docs]

for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(name, "1")  # read when numpy and torch are loaded, here and in notebooks' kernels

# what is compiled to bytecode is kept as kernels are: else every process that a test starts compiles the package anew
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

os.environ.setdefault("COVOPT_NOTEBOOKS", "quick")  # fewer steps; their own sizes are run every night

# one worker compiles most kernels in the first file; beside it the other one has what needs none, and does not wait
FIRST = ("tests/api/test_fit.py", "tests/training/", "tests/completely_positive/")


# notebooks are started as processes of their own: one with every change, all of them every night
BY_DAY = ("sp20_cells_and_sparsity",)


@pytest.hookimpl(wrapper=True)
def pytest_collect_file(file_path):
    """Look for examples in the package only: tests have none."""
    found = yield
    ours = file_path.is_relative_to(Path(__file__).with_name("tests"))
    return [node for node in found if not (ours and isinstance(node, DoctestModule))]


def pytest_collection_modifyitems(items):
    """Put FIRST first, the order is else the one of ``testpaths``; leave notebooks beside BY_DAY to the night."""
    for item in items:
        if item.path.suffix == ".ipynb" and item.path.stem not in BY_DAY:
            item.add_marker("slow")
    items.sort(key=lambda item: [item.nodeid.startswith(place) for place in FIRST], reverse=True)


def pytest_collection_finish():
    """Collect garbage less often, and only objects created by tests: this saves a twentieth of the time."""
    gc.freeze()
    gc.set_threshold(10_000)
    gc.enable()


if "numpy" in sys.modules:  # a plugin was first
    from threadpoolctl import threadpool_limits

    threadpool_limits(1)


def _compile_each_kernel_once() -> None:
    """Lock a kernel while it is compiled: numba's cache, looked at first, then has it for the next process."""
    import fcntl

    from numba.core.caching import NullCache
    from numba.core.dispatcher import Dispatcher

    from covopt.limits import compiling

    locks = (Path(tempfile.gettempdir()) / f"covopt-tests-{os.getuid()}").open("w")
    compile_now, held, own = Dispatcher.compile, set(), threading.RLock()

    def compile_once(self, sig):
        place = zlib.crc32(f"{self.py_func.__module__}.{self.py_func.__qualname__}".encode())
        with own:
            if place in held or isinstance(self._cache, NullCache):
                return compile_now(self, sig)
            began = time.perf_counter()
            fcntl.lockf(locks, fcntl.LOCK_EX, 1, place)
            if compiling.depth == 0:  # limits do not count what is compiled here; nor elsewhere
                compiling.spent += time.perf_counter() - began
            held.add(place)
            try:
                return compile_now(self, sig)
            finally:
                held.discard(place)
                fcntl.lockf(locks, fcntl.LOCK_UN, 1, place)

    Dispatcher.compile = compile_once


if os.name == "posix" and "PYTEST_XDIST_TESTRUNUID" in os.environ:
    _compile_each_kernel_once()
