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


CASES = [
    (dict(device="tpu"), "device must be 'cpu', 'cuda' or 'cuda:<number>'; received 'tpu'."),
    (dict(device=7.5), "device must be 'cpu', 'cuda' or 'cuda:<number>'; received 7.5."),
    (dict(device="meta"), "device must be 'cpu', 'cuda' or 'cuda:<number>'; received 'meta'."),
    (
        dict(dtype="float16"),
        "dtype must be one of 'float64', 'float32'; received 'float16'; did you mean 'float64' or 'float32'?",
    ),
    (dict(widths=0), "widths must be positive integers; received 0."),
    (dict(widths=[4, -2]), "widths must be positive integers; received -2."),
    (dict(widths=(4, 2.5)), "widths must be positive integers; received 2.5."),
    (dict(widths=True), "widths must be positive integers; received True."),
    (dict(widths="4"), "widths must be positive integers; received '4'."),
    (dict(widths=[]), "widths is empty; give an int, a tuple of hidden widths, or a list of them."),
    (dict(widths=()), "widths is empty; give an int, a tuple of hidden widths, or a list of them."),
    (dict(widths=[4, (3, 2)]), "widths mixes networks of 2 and 3 layers; train one depth at a time."),
    (dict(lam=-0.1), "lam must be finite and not negative; received -0.1."),
    (dict(lam=[0.1, np.nan]), "lam must be finite and not negative; received nan."),
    (dict(lam="0.1"), "lam must be finite and not negative; received '0.1'."),
    (dict(lam=[]), "lam is empty; give a number or at least one."),
    (dict(learning_rate=0), "learning_rate must be a positive finite number; received 0."),
    (dict(learning_rate=[0.1, -1.0]), "learning_rate must be a positive finite number; received -1.0."),
    (dict(learning_rate=np.inf), "learning_rate must be a positive finite number; received inf."),
    (dict(seeds=0), "seeds must be a positive count or a sequence of seeds; received 0."),
    (dict(seeds=[]), "seeds is empty; give a positive count or at least one seed."),
    (dict(seeds=[1, -1]), "seeds must be nonnegative integers; received -1."),
    (dict(seeds=2.5), "seeds must be a positive count or a sequence of seeds; received 2.5."),
    (dict(slope=1.0), "slope must be a number in (-1, 1), 0 for the ReLU; received 1.0."),
    (
        dict(checkpoint="run.safetensors", random_state=None),
        "random_state=None draws another seed each time; a checkpoint needs a number to go on from.",
    ),
    (dict(slope="a"), "slope must be a number in (-1, 1), 0 for the ReLU; received 'a'."),
    (dict(scale=0), "scale must be a positive finite number; received 0."),
    (dict(tol_gradient=-1), "tol_gradient must be in [0, 1), 0 for never; received -1."),
    (dict(record_every=0), "record_every must be a positive integer; received 0."),
    (dict(random_state=-1), "random_state must be a nonnegative integer or None; received -1."),
    (dict(checkpoint_every_s=0), "checkpoint_every_s must be a positive finite number; received 0."),
    (dict(schedule=[]), "schedule is empty; give at least one Phase."),
    (dict(schedule=[3]), "schedule must be Phases (or names of optimisers); received int."),
    (
        dict(schedule="adamw"),
        "optimiser must be one of 'adam', 'sgd', 'gd', 'lbfgs', 'label-noise-sgd'; received 'adamw'; "
        "did you mean 'adam'?",
    ),
    (
        dict(loss="logistic", Y=np.sign(Y), schedule="label-noise-sgd"),
        "optimiser='label-noise-sgd' adds noise to numbers and takes the squared loss; received loss='logistic'.",
    ),
    (
        dict(output_bias="penalized", bias=0.0),
        "output_bias='penalized' needs a positive bias: the output bias enters the network as bias * b",
    ),
    (dict(Y=Y[:-1]), "X has 12 rows but Y has 11: give one target (row) for each sample."),
    (dict(reference=3), "reference must be a Solution; received int."),
    (dict(start=[]), "start has 0 networks for 1; give one for all, or one for each."),
    (dict(start=[3]), "start must hold networks; entry 0 is int."),
    (dict(start=3), "start must be a network, a sequence of networks or a TrainingRun; received int."),
]  # fmt: skip


@pytest.mark.parametrize(("options", "expected"), CASES, ids=[expected[:40] for _, expected in CASES])
def test_messages(options, expected):
    assert message(**options) == expected


def test_numbers_that_are_not_numbers():
    broken = X.copy()
    broken[3, 1] = np.nan
    advice = "Drop or impute these rows: a network can only pass through finite points."
    expected = f"X row 3 (counting from 0), column 1 is NaN (a missing value). {advice}"
    assert message(X=broken) == expected
    targets = Y.copy()
    targets[5] = np.inf
    assert message(Y=targets) == f"Y row 5 (counting from 0), column 0 is infinity. {advice}"
    assert message(loss="squred").startswith("loss must be one of 'squared'")


PHASES = [
    (dict(steps=0), "steps must be a positive integer; received 0."),
    (dict(steps=2.5), "steps must be a positive integer; received 2.5."),
    (dict(learning_rate=0.0), "learning_rate must be a positive finite number; received 0.0."),
    (dict(batch_size=0), "batch_size must be a positive integer; received 0."),
    (dict(optimiser="gd", batch_size=3), "optimiser='gd' takes all samples; leave batch_size out."),
    (dict(optimiser="lbfgs", batch_size=3), "optimiser='lbfgs' takes all samples; leave batch_size out."),
    (dict(noise_size=0.1), "noise_size belongs to 'label-noise-sgd'; leave it out for 'adam'."),
    (dict(optimiser="label-noise-sgd", noise_size=-0.1),
     "noise_size must be a positive finite number; received -0.1."),
    (dict(optimiser="label-noise-sgd", noise="gauss"),
     "noise must be one of 'normal', 'rademacher', 'uniform'; received 'gauss'."),
    (dict(momentum=0.5), "momentum belongs to 'sgd' and 'gd'; leave it out for 'adam'."),
    (dict(optimiser="gd", momentum=1.0), "momentum must be in [0, 1); received 1.0."),
    (dict(betas=(0.9, 1.0)), "betas must be two numbers in [0, 1); received (0.9, 1.0)."),
    (dict(betas=0.9), "betas must be two numbers in [0, 1); received 0.9."),
    (dict(decay="linear"), "decay must be one of 'constant', 'cosine'; received 'linear'; did you mean 'cosine'?"),
    (dict(eps=0), "eps must be a positive finite number; received 0."),
    (dict(memory=0), "memory must be a positive integer; received 0."),
]  # fmt: skip


@pytest.mark.parametrize(("options", "expected"), PHASES)
def test_messages_of_phases(options, expected):
    with pytest.raises(InputError) as caught:
        Phase(**options)
    assert str(caught.value) == expected


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
    expected = "reference bounds two-layer ReLU networks only; leave it out for deep or sloped ones."
    assert message(lam=0.5, reference=reference, widths=(3, 3)) == expected
    assert message(lam=0.5, reference=reference, slope=0.1) == expected


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
    assert message(start=deep) == "start 0 has slope 0.5 but slope=0 is asked for; use its own."


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
