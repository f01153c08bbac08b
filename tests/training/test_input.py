"""GPUs that are not there; what else is refused is in ``messages.txt``, torch that is not there in ``checks``."""

import pkgutil

import pytest

torch = pytest.importorskip("torch")

import covopt.training as package  # noqa: E402
from covopt.errors import InputError  # noqa: E402
from covopt.training import Phase, train  # noqa: E402


def test_a_gpu_that_is_not_there():
    device = f"cuda:{torch.cuda.device_count()}"
    with pytest.raises(
        InputError, match=rf"device='{device}' does not answer \(.*\); use 'cpu', or 'cuda' or"
    ):
        train([[0.0], [1.0]], [0.0, 1.0], widths=3, schedule=Phase("adam", 1), device=device)


def test_no_public_name_is_hidden_by_a_module():
    assert not set(package.__all__) & {module.name for module in pkgutil.iter_modules(package.__path__)}
