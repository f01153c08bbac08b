"""The training table of a network in its units, its loss, and λ from the weight decay of other programs."""

from __future__ import annotations

from itertools import product
from typing import Any, NamedTuple

import numpy as np

from covopt.api import lambda_max
from covopt.api.lambdas import parse_lam
from covopt.api.task import aligned
from covopt.checks import counted, listed
from covopt.checks.validation import check_choice, check_positive
from covopt.data import Data
from covopt.data.scaling import APART, Scaling, standardise
from covopt.data.tabular import Named
from covopt.errors import InputError
from covopt.losses import Interpolation, Loss, make_loss
from covopt.losses.classification import codes_of
from covopt.meter.networks import Given
from covopt.network import DeepReLUNetwork

REDUCTIONS = ("mean", "sum")
ENTRYWISE = ("squared", "huber")  # losses that other programs average over rows and outputs
BATCH = 200  # default batch size of scikit-learn


class Strength(NamedTuple):
    """λ, its origin in words, and remarks where the objective differs from the one that was trained."""

    lam: float
    formula: str
    notes: tuple[str, ...] = ()


class Table(NamedTuple):
    """The points as the network was trained on them."""

    data: Data
    loss: Loss
    weights: np.ndarray | None
    notes: tuple[str, ...]
    targets: np.ndarray | None = None  # y, if the network's own outputs replace it


def read_table(
    given: Given, network: DeepReLUNetwork, X: Any, y: Any, loss: Any, bias: float, scaler: Any, sample_weight: Any,
    *, standardised: bool,
) -> Table:  # fmt: skip
    """Return the table in the units of the network; for interpolation the targets are the network's own outputs."""
    through = loss == "interpolation"
    if loss is None:
        loss = "squared"
        if given.mlp is not None and hasattr(given.mlp, "classes_"):
            loss = "logistic" if given.mlp.out_activation_ == "logistic" else "softmax-cross-entropy"
    bound: Loss = Interpolation() if through else make_loss(loss)
    targets = bound.encode_targets(aligned(X, y), sample_weight)
    names = tuple(map(str, bound.classes)) if bound.classes and targets.shape[1] > 1 else None
    data = Data.validate(X, Named(targets, names) if names else targets, bias=bias, interpolates=False)
    if not through:
        _same_outputs(given, network, data, bound)
    if standardised and scaler is not None:
        raise InputError("give scaler or standardise, not both: either says what the columns went through.")
    scaling = given.scaling
    if scaler is not None:
        scaling = _scaling(scaler, data)
    notes: list[str] = []
    if standardised:
        scaling = _standardised(data, bound, through)
    if scaling is not None:
        data = scaling.apply_data(data)
        if scaling.target_centre.any():
            bound.encode_targets(data.Y, sample_weight)
        notes.append("the columns are centred and scaled as in training: all numbers are of that table")
    if not through:
        notes += _other_units(network, data, bound, scaled=scaling is not None)
    if through:
        outputs = network.representations(data.X)[-1]
        same = data.n_outputs == outputs.shape[1]
        told = Named(outputs, data.target_names) if same else outputs
        own = Data.validate(Named(data.X, data.feature_names), told, bias=bias, duplicates="mean")
        bound.encode_targets(own.Y)
        return Table(own, bound, None, tuple(notes), data.Y if same and own.Y.shape == data.Y.shape else None)
    weights = None if sample_weight is None else np.asarray(sample_weight, dtype=float)
    return Table(data, bound, weights, tuple(notes))


def _same_outputs(given: Given, network: DeepReLUNetwork, data: Data, loss: Loss) -> None:
    """Refuse a network whose classes or number of outputs differ from those of the targets."""
    known, found = list(getattr(given.mlp, "classes_", ())), list(loss.classes or ())
    if known and found and known != found:
        raise InputError(
            f"network knows the classes {listed(list(map(str, known)))}, and y has {listed(list(map(str, found)))}; "
            "give the labels that it was trained on."
        )
    if network.n_outputs != data.n_outputs:
        raise InputError(
            f"network has {counted(network.n_outputs, 'output')} and the {loss.name} loss of y wants "
            f"{data.n_outputs}."
        )


def _scaling(scaler: Any, data: Data) -> Scaling:
    pair = scaler
    if hasattr(scaler, "mean_"):  # set even if with_mean or with_std is False
        pair = scaler.mean_ if scaler.with_mean else None, scaler.scale_
    try:
        mean, scale = (np.zeros(data.n_features) + (default if part is None else np.asarray(part, dtype=float))
                       for part, default in zip(pair, (0.0, 1.0), strict=True))  # fmt: skip
    except (TypeError, ValueError):
        raise InputError(
            f"scaler must be a StandardScaler or a pair (mean, scale) of {data.n_features} numbers each."
        ) from None
    if not np.isfinite(mean).all() or not np.isfinite(scale).all() or not (scale > 0.0).all():
        raise InputError("scaler: means must be finite and scales positive.")
    return Scaling(mean, scale, np.zeros(data.n_outputs))


def _standardised(data: Data, loss: Loss, through: bool) -> Scaling:
    """Return the standardisation of the columns; targets are not scaled."""
    weights = None if through else loss.weights[:, 0]
    return standardise(data, weights, targets=False)[1]


def _other_units(network: DeepReLUNetwork, data: Data, loss: Loss, *, scaled: bool) -> list[str]:
    """Warn if the network fits a standardised table far better, which suggests that it was trained in other units.

    Numerical targets are tested, and columns unless they are already ``scaled``.
    """
    weights = loss.weights[:, 0]
    here = loss.value(network.representations(data.X)[-1])
    points, bounds = {"": data.X}, {"": loss}
    if not scaled:
        points["the columns"] = standardise(data, weights, targets=False)[0].X
    moved = data.Y - weights @ data.Y
    spread = np.sqrt(weights @ moved**2)
    if not loss.is_classification and spread.all():
        bounds["y"] = make_loss(loss)
        bounds["y"].encode_targets(moved / spread, weights)
    found = []
    for (columns, X), (targets, bound) in product(points.items(), bounds.items()):
        value = bound.value(network.representations(X)[-1])
        # with scaled targets it has to fit better than their mean
        least = value < bound.value(np.zeros_like(data.Y)) if targets else columns
        if least and here > APART * value:
            found.append((value, [part for part in (columns, targets) if part]))
    if not found:
        return []
    value, parts = min(found)
    advice = {"the columns": "standardise=True, or scaler=", "y": "y as it was in training"}
    return [
        f"the network fits {' and '.join(parts)} centred and scaled {here / max(value, 1e-300):.3g} times better: "
        f"was it trained so? Pass {' and '.join(advice[part] for part in parts)}"
    ]


def strength_of(
    table: Table, given: Given, lam: Any, weight_decay: float | None, reduction: str, output_bias: str
) -> Strength:
    """Return λ: as given, as a fraction of λ_max, or from the weight decay of other programs."""
    n, k = table.data.n_samples, table.data.n_outputs
    if lam is not None and weight_decay is not None:
        raise InputError("give lam or weight_decay, not both: either says how much the norm costs.")
    if lam is not None:
        value, relative = parse_lam(lam)
        if not relative:
            return Strength(value, f"λ = {value:g}")
        Y: Any = table.data.Y[:, 0] if k == 1 else table.data.Y
        if table.loss.is_classification:
            Y = labels_of(table.loss, table.data.Y)
        largest = lambda_max(
            table.data.X, Y, loss=make_loss(table.loss), bias=table.data.bias, output_bias=output_bias,
            sample_weight=table.weights,
        )  # fmt: skip
        return Strength(value * largest, f"λ = {value:g} λ_max = {value * largest:.6g}")
    if weight_decay is not None:
        return of_weight_decay(table.loss, weight_decay, reduction, n, k)
    if given.mlp is not None:
        return of_mlp(given.mlp, n, k)
    raise InputError(
        "give lam or weight_decay, what the norm costs in the objective that was trained; for a network trained "
        "without, loss='interpolation'."
    )


def labels_of(loss: Loss, targets: np.ndarray) -> list[Any]:
    """Return the labels of encoded targets."""
    assert loss.classes is not None
    return [loss.classes[place] for place in codes_of(targets)]


# ---------------------------------------------------------------------- weight decay
def of_weight_decay(loss: Loss, weight_decay: float, reduction: str, n: int, k: int) -> Strength:
    r"""Return λ of an optimiser's ``weight_decay``: :math:`L + \frac{wd}{2}\|\theta\|^2` with PyTorch's loss L.

    L is c times the mean loss of covopt, with c = 1 for a mean over the rows, 1/k for a mean over rows and outputs
    (``MSELoss``, ``HuberLoss``), N for a sum. Then λ = wd/(2c).

    Parameters
    ----------
    loss : Loss
    weight_decay : float
    reduction : {"mean", "sum"}
        Whether L is a mean or a sum.
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
    r"""Return λ from scikit-learn's ``alpha``: loss + alpha/(2b) Σ‖weights‖² with batch size b.

    Its squared loss is half the mean over rows and outputs, 1/(2k) times covopt's; its logarithmic loss is the same.
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
