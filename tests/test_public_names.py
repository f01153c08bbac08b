import covopt


def test_every_public_name_exists_and_is_documented():
    space: dict = {}
    exec("from covopt import *", space)
    assert set(covopt.__all__) <= set(space) and covopt.__version__.count(".") == 2
    for name in covopt.__all__:
        assert name in dir(covopt) and (name == "__version__" or getattr(covopt, name).__doc__)


def test_public_signatures_match_the_design():
    import inspect

    names = list(inspect.signature(covopt.min_norm).parameters)
    assert names[:10] == [
        "X", "Y", "bias", "output_bias", "potential", "solver", "tol", "time_limit_s",
        "random_state", "callback",
    ]  # fmt: skip
    kinds = {p.name: p.kind for p in inspect.signature(covopt.min_norm).parameters.values()}
    assert all(kinds[n] is inspect.Parameter.KEYWORD_ONLY for n in names[2:])
