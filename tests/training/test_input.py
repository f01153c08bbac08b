"""GPUs that are not there, torch that is not there; what else is refused is in ``messages.txt``."""

import pkgutil
import subprocess
import sys

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


def test_without_torch_the_extra_is_named_and_the_package_loads_none():
    code = (
        "import sys, covopt.training as t; dir(t)\n"
        "assert not {'torch', 'pandas'} & set(sys.modules)\n"
        "sys.modules['torch'] = None\n"
        "assert t.Phase('adam').steps == 1000\n"  # nothing that needs no torch asks for it
        "from covopt.errors import SolverUnavailableError\n"
        "try:\n"
        "    t.train([[0.0]], [0.0])\n"
        "except SolverUnavailableError as error:\n"
        "    print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "covopt.training needs torch: pip install '.[train]' in the checkout"
    assert not set(package.__all__) & {module.name for module in pkgutil.iter_modules(package.__path__)}
