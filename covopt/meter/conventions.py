"""Weight decay as other programs count it, in the objective of covopt: mean loss + λ‖W‖²."""

from __future__ import annotations

from typing import Any, NamedTuple

from covopt.checks.validation import check_choice, check_positive
from covopt.errors import InputError
from covopt.losses import Loss

REDUCTIONS = ("mean", "sum")
ENTRYWISE = ("squared", "huber")  # losses of which other programs take the mean over rows and outputs
BATCH = 200  # rows, scikit-learn's own choice where nobody says


class Strength(NamedTuple):
    """λ, where it came from in words, and what of it is another objective than the one that was trained."""

    lam: float
    formula: str
    notes: tuple[str, ...] = ()


def of_weight_decay(loss: Loss, weight_decay: float, reduction: str, n: int, k: int) -> Strength:
    r"""Return λ of an optimiser's ``weight_decay``: :math:`L + \frac{wd}{2}\|\theta\|^2` with PyTorch's loss L.

    L is a multiple c of the mean loss here: 1 for a mean over the rows, 1/k where it is one over the outputs too
    (``MSELoss``, ``HuberLoss``), N for a sum. Then λ = wd/(2c).

    Parameters
    ----------
    loss : Loss
    weight_decay : float
    reduction : {"mean", "sum"}
        Of L.
    n, k : int
        Rows and outputs.

    Examples
    --------
    >>> from covopt.losses import make_loss
    >>> of_weight_decay(make_loss("squared"), 1e-3, "mean", 100, 2).lam
    0.001
    """
    check_positive("weight_decay", weight_decay)
    check_choice("reduction", reduction, REDUCTIONS)
    share = 1.0 / k if loss.name in ENTRYWISE else 1.0
    c = float(n) if reduction == "sum" else share
    lam = weight_decay / (2.0 * c)
    text = f"λ = weight_decay/2 = {lam:g}"
    if c != 1.0:
        text = f"λ = weight_decay/(2c) = {lam:g}: PyTorch's loss is c = {c:g} times the mean over the rows"
    return Strength(lam, text)


def of_mlp(mlp: Any, n: int, k: int) -> Strength:
    r"""Return λ of scikit-learn's ``alpha``: loss + alpha/(2b) Σ‖weights‖², b the rows of a batch.

    Its squared loss is half the mean over rows and outputs, 1/(2k) of the one here; its logarithmic loss is the same.
    """
    regresses = not hasattr(mlp, "classes_")
    batch = n
    if mlp.solver != "lbfgs":
        batch = min(BATCH, n) if mlp.batch_size == "auto" else min(int(mlp.batch_size), n)
    c = 1.0 / (2.0 * k) if regresses else 1.0
    if not mlp.alpha > 0.0:
        raise InputError(
            "network was trained with alpha=0, without weight decay: give lam, or loss='interpolation'."
        )
    lam = mlp.alpha / (2.0 * batch * c)
    note = "scikit-learn does not penalise biases; the objective here penalises those of hidden neurons"
    return Strength(
        lam,
        f"λ = alpha/(2bc) = {lam:g}: alpha = {mlp.alpha:g}, batches of b = {batch} rows, and scikit-learn's loss is "
        f"c = {c:g} times the mean over the rows",
        (note,),
    )
