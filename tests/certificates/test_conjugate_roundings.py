"""C* from above against forty digits: at the edge of its domain, and after roundings."""

from decimal import Decimal, localcontext

import numpy as np
import pytest

from covopt.certificates.conjugate import conjugate_above
from covopt.losses import make_loss


def entropy(q: Decimal) -> Decimal:
    return q * q.ln() if q > 0 else Decimal(0)


@pytest.mark.parametrize("loss", ["logistic", "softmax-cross-entropy"])
def test_it_is_above_in_forty_digits_for_every_dual_nearby(loss):
    rng = np.random.default_rng(11)
    labels = np.array([0, 1, 1, 0, 1])
    terms = make_loss(loss)
    terms.encode_targets(labels)
    u = 2.0**-53
    for _ in range(60):
        # chances of the own class from 1e-17 to 1 − 1e-16, all rows near the same edge
        q = np.clip(
            10.0 ** rng.uniform(-17, 0, 5) if rng.integers(2) else 1 - 2.0 ** -rng.integers(1, 53, 5), 0, 1
        )
        if loss == "logistic":
            U = (np.where(labels > 0, -1.0, 1.0) * q / 5)[:, None]
        else:
            U = np.where(np.eye(2)[labels] > 0, -1.0, 1.0) * q[:, None] / 5
        above = conjugate_above(terms, U, roundings=4)
        with localcontext() as context:
            context.prec = 60
            for moved in (Decimal(0), Decimal(4 * u), Decimal(-4 * u)):
                value = Decimal(0)
                for row, weight in zip(np.abs(U[:, 0]), terms.weights[:, 0], strict=True):
                    w = Decimal(float(weight))
                    p = min(Decimal(float(row)) * (1 + moved) / w, Decimal(1))
                    value += w * (entropy(p) + entropy(1 - p))
                assert value <= Decimal(above)
        assert above - float(value) <= 1e-12
