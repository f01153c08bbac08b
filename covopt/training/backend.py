"""Where training runs: PyTorch if it is there, the device, the precision, the number of threads."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from covopt.checks.optional import required
from covopt.checks.validation import check_choice
from covopt.errors import InputError

required("torch", "covopt.training", "train")

import torch  # noqa: E402

DTYPES = {"float64": torch.float64, "float32": torch.float32}
# one class on every device since torch 2.5; before that it was CUDA's
OutOfMemory: type[BaseException] = getattr(torch, "OutOfMemoryError", torch.cuda.OutOfMemoryError)


def check_device(device: Any) -> Any:
    """Return the device, once it is known to answer.

    Parameters
    ----------
    device : str or torch.device
        ``"cpu"``, ``"cuda"`` or ``"cuda:1"``.

    Raises
    ------
    InputError
        For another name, and for a GPU that is not there.

    Examples
    --------
    >>> check_device("cpu")
    device(type='cpu')
    >>> check_device("tpu")
    Traceback (most recent call last):
    covopt.errors.InputError: device must be 'cpu', 'cuda' or 'cuda:<number>'; received 'tpu'.
    """
    try:
        found = torch.device(device)
    except (RuntimeError, TypeError):
        found = None
    if found is None or found.type not in ("cpu", "cuda"):
        raise InputError(f"device must be 'cpu', 'cuda' or 'cuda:<number>'; received {device!r}.")
    if found.type == "cuda":
        if torch.version.cuda is None and torch.version.hip is None:
            raise InputError(
                f"device={str(device)!r} asks for a GPU, but this torch build ({torch.__version__}) has no CUDA; "
                "use device='cpu' or install a CUDA build."
            )
        count = torch.cuda.device_count() if torch.cuda.is_available() else 0
        if count == 0:
            raise InputError(
                f"device={str(device)!r} asks for a GPU, but this machine has none that torch can use; "
                "use device='cpu'."
            )
        if found.index is not None and found.index >= count:
            raise InputError(f"device={str(device)!r} is not there: torch sees {count} GPU(s), cuda:0 first.")
    return found


def check_dtype(dtype: Any) -> Any:
    """Return the torch type of ``"float64"`` or ``"float32"`` (or of a torch or NumPy type of that name).

    Examples
    --------
    >>> check_dtype("float32")
    torch.float32
    """
    name = str(dtype).removeprefix("torch.") if isinstance(dtype, torch.dtype) else dtype
    if isinstance(name, type):
        name = name.__name__
    return DTYPES[check_choice("dtype", name, DTYPES)]


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an error says that memory ran out, on the GPU or on the CPU (there it is a plain RuntimeError)."""
    if isinstance(error, OutOfMemory | MemoryError):
        return True
    return isinstance(error, RuntimeError) and "can't allocate memory" in str(error)


@contextmanager
def one_thread_each(wanted: int) -> Iterator[None]:
    """Give every operation ``wanted`` threads inside the block; the user's number comes back after it."""
    before = torch.get_num_threads()
    torch.set_num_threads(wanted)
    try:
        yield
    finally:
        torch.set_num_threads(before)
