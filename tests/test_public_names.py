import subprocess
import sys

import pytest

import covopt

HEAVY = ("torch", "matplotlib", "cvxpy", "pandas", "numba", "sklearn", "scipy", "polars", "joblib", "rich")


def run(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return done.stdout.strip()


def test_import_loads_nothing_heavy():
    assert run(f"import sys, covopt; print([m for m in {HEAVY!r} if m in sys.modules])") == "[]"


def test_listing_the_names_loads_nothing_heavy():
    assert run(f"import sys, covopt; dir(covopt); print([m for m in {HEAVY!r} if m in sys.modules])") == "[]"


def test_the_core_does_not_load_torch_or_matplotlib():
    code = (
        "import sys, covopt; s = covopt.min_norm([[0.0], [1.0]], [0.0, 1.0]); assert covopt.verify(s).ok; "
        "s.is_unique; s.sparsest(); "
        "print([m for m in ('torch', 'matplotlib', 'cvxpy', 'pandas', 'polars') if m in sys.modules])"
    )
    assert run(code) == "[]"


@pytest.mark.parametrize("name", [name for name in covopt.__all__ if name != "__version__"])
def test_every_public_name_exists_and_is_documented(name):
    assert name in dir(covopt)
    assert getattr(covopt, name).__doc__


def test_star_import_and_version():
    space: dict = {}
    exec("from covopt import *", space)
    assert set(covopt.__all__) <= set(space)
    assert covopt.__version__.count(".") == 2


def test_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'minnorm'"):
        _ = covopt.minnorm


def test_public_signatures_match_the_design():
    import inspect

    names = list(inspect.signature(covopt.min_norm).parameters)
    assert names[:10] == [
        "X", "Y", "bias", "output_bias", "potential", "solver", "tol", "time_limit_s",
        "random_state", "callback",
    ]  # fmt: skip
    kinds = {p.name: p.kind for p in inspect.signature(covopt.min_norm).parameters.values()}
    assert all(kinds[n] is inspect.Parameter.KEYWORD_ONLY for n in names[2:])
