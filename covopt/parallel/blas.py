"""BLAS on one thread, said at little cost."""

from __future__ import annotations

import sys
from contextlib import AbstractContextManager
from functools import lru_cache
from typing import Any

from threadpoolctl import ThreadpoolController


def one_blas_thread() -> AbstractContextManager[Any]:
    """Limit BLAS to one thread in the block; looking for libraries, a millisecond or two, is done once.

    Examples
    --------
    >>> with one_blas_thread():
    ...     pass
    """
    return _controller(len(sys.modules)).limit(limits=1, user_api="blas")


@lru_cache(maxsize=1)
def _controller(n_modules: int) -> ThreadpoolController:
    """Libraries come with modules: where none has been imported since, they are the same."""
    return ThreadpoolController()
