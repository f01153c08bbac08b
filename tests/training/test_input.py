"""Input that cannot be used, word for word; and torch that is not there."""

import subprocess
import sys

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import covopt  # noqa: E402
from covopt.errors import InputError  # noqa: E402
from covopt.training import Phase, train  # noqa: E402
from covopt.training import backend as backend_module  # noqa: E402

RNG = np.random.default_rng(0)
X, Y = RNG.standard_normal((12, 2)), RNG.standard_normal(12)


def message(**options):
    with pytest.raises(InputError) as caught:
        train(
            options.pop("X", X), options.pop("Y", Y), **{"widths": 3, "schedule": Phase("adam", 1), **options}
        )
    return str(caught.value)


def test_numbers_that_are_not_numbers():
    broken = X.copy()
    broken[3, 1] = np.nan
    advice = "Drop or impute these rows."
    expected = f"X row 3 (counting from 0), column 1 is NaN (a missing value). {advice}"
    assert message(X=broken) == expected
    targets = Y.copy()
    targets[5] = np.inf
    assert message(Y=targets) == f"Y row 5 (counting from 0), column 0 is infinity. {advice}"
    assert message(loss="squred").startswith("loss must be one of 'squared'")


def test_a_gpu_that_is_not_there(monkeypatch):
    monkeypatch.setattr(backend_module.torch.version, "cuda", None)
    monkeypatch.setattr(backend_module.torch.version, "hip", None, raising=False)
    assert message(device="cuda") == (
        f"device='cuda' asks for a GPU, but this torch build ({torch.__version__}) has no CUDA; use device='cpu' or "
        "install a CUDA build."
    )
    monkeypatch.setattr(backend_module.torch.version, "cuda", "12.4")
    monkeypatch.setattr(backend_module.torch.cuda, "is_available", lambda: False)
    assert message(device="cuda:0") == (
        "device='cuda:0' asks for a GPU, but this machine has none that torch can use; use device='cpu'."
    )
    monkeypatch.setattr(backend_module.torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(backend_module.torch.cuda, "device_count", lambda: 2)
    assert message(device="cuda:2") == "device='cuda:2' is not there: torch sees 2 GPU(s), cuda:0 first."


def test_references_of_other_problems():
    reference = covopt.fit(X, Y, lam=0.5)
    differ = "reference is a solution of another problem: {} differ; train on its own table."
    assert message(lam=0.5, reference=reference, X=X + 1) == differ.format("X")
    assert message(lam=0.5, reference=reference, Y=Y + 1) == differ.format("Y")
    assert message(lam=0.5, reference=reference, bias=2.0, output_bias="free") == differ.format(
        "bias, output_bias"
    )
    assert message(lam=0.5, reference=reference, loss="huber") == differ.format("loss")
    assert message(lam=0.5, reference=reference, sample_weight=np.arange(12.0)) == differ.format(
        "sample_weight"
    )
    expected = "reference bounds two-layer networks only; leave it out for deep ones."
    assert message(lam=0.5, reference=reference, widths=(3, 3)) == expected


def test_starts_of_another_shape():
    other = train(X, Y, widths=5, schedule=Phase("adam", 1)).network(0)
    assert message(start=other) == (
        "start 0 has layers of shapes [(3, 5), (5, 1)] but widths (3,) need [(3, 3), (3, 1)] (inputs by outputs, "
        "biases as last rows)."
    )


def test_starts_that_would_mean_another_function():
    weights = np.ones((3, 3)), np.ones((3, 1))
    shallow = covopt.ReLUNetwork(*weights, bias=2.0)
    assert message(start=shallow) == "start 0 has bias 2 but bias=1 is asked for; use its own."
    shallow = covopt.ReLUNetwork(*weights, output_bias=np.ones(1))
    assert message(start=shallow) == "start 0 has an output bias; use output_bias='penalized' or 'free'."
    deep = covopt.DeepReLUNetwork([np.ones((3, 2)), np.ones((1, 3))], [np.ones(3), None], slope=0.5)
    assert message(start=deep) == "start 0 has slope 0.5; networks are trained with ReLUs, of slope 0."


def test_without_torch_the_extra_is_named():
    code = (
        "import sys; sys.modules['torch'] = None\n"
        "import covopt, covopt.training\n"
        "assert covopt.training.Phase('adam').steps == 1000\n"  # nothing that needs no torch asks for it
        "from covopt.errors import SolverUnavailableError\n"
        "for name in ('train', 'cross_check', 'plateau'):\n"
        "    try:\n"
        "        getattr(covopt.training, name)([[0.0]], [0.0])\n"
        "    except SolverUnavailableError as error:\n"
        "        print(error)\n"
        "    except TypeError:\n"
        "        print('no torch asked for')\n"
        "    break\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "covopt.training needs torch: pip install 'covopt-nn[train]'"


def test_the_package_loads_no_torch():
    code = "import sys, covopt.training as t; dir(t); print([m for m in ('torch', 'pandas') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_no_module_hides_a_function():
    import pkgutil

    import covopt.training as package

    assert not set(package.__all__) & {module.name for module in pkgutil.iter_modules(package.__path__)}
