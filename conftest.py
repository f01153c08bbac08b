"""One thread a test process: the matrices are small, and ``-n 2`` has two processes to fill two cores with."""

import os
import sys

for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(name, "1")  # read when numpy and torch are loaded, here and in notebooks' kernels

if "numpy" in sys.modules:  # a plugin was first
    from threadpoolctl import threadpool_limits

    threadpool_limits(1)
