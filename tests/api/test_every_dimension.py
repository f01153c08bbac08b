"""Commands that once asked for all faces, on tables with far more of them: an answer, or a bracket that says so."""

import warnings

import numpy as np
import pytest

import covopt
from covopt.errors import NotCertifiedWarning
from covopt.oracles.faces import DEFAULT_FACE_BUDGET, count_faces
from covopt.status import Status
from covopt.training import Phase

BRIEF = (Phase("adam", 60, decay="cosine"),)


@pytest.mark.thinned(4)
@pytest.mark.parametrize(("n", "d"), [(16, 70), (16, 20), (20, 10)])
def test_commands_work_in_every_dimension(n, d):
    rng = np.random.default_rng(n)
    X = rng.standard_normal((n, d))
    y = X[:, 0] + 0.3 * rng.standard_normal(n)
    assert count_faces(n, np.linalg.matrix_rank(np.column_stack([X, np.ones(n)]))) > DEFAULT_FACE_BUDGET
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        top = covopt.lambda_max(X, y)
        empty, some = covopt.path(X, y, lams=[top, 0.7 * top], time_limit_s=10.0)
        model = covopt.ReLURegressor(0.7 * top, time_limit_s=10.0).fit(X, y)
    assert {one.category for one in caught} <= {NotCertifiedWarning}
    assert len(empty.network) == 0 < len(some.network)
    for solution in (empty, some, model.solution_):
        assert 0.0 < solution.lower_bound <= solution.objective * (1 + 1e-12)
        assert solution.gap <= 1e-6 or solution.status is Status.HEURISTIC
        assert covopt.verify(solution).ok
    assert np.all(np.isfinite(model.predict(X)))
    trained = covopt.cross_check(some, seeds=2, widths=8, schedule=BRIEF)
    assert (trained.table.objective >= some.lower_bound * (1 - 1e-9)).all()
    neurons = covopt.sparsity_bounds(X, y)
    assert 1 <= neurons.lower <= neurons.upper <= n
