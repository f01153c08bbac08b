r"""Losses of regularised training: value, gradient, convex conjugate and its domain.

A loss is C(F) = Σ_i s_i ℓ(f_i, y_i), the weighted MEAN over the samples: s_i = sample_weight_i / Σ sample_weight.
``encode_targets`` binds a loss to its targets and weights; then F and U are arrays of shape (N, k), or (N,).

=====================  ======================================  ==================================================
name                   ℓ(f, y)                                 C*(U), its domain
=====================  ======================================  ==================================================
squared                ‖f − y‖² (no ½)                         Σ u·y + ‖u‖²/(4s)
huber                  ½r² up to |r| = δ, then δ(|r| − δ/2)    Σ uy + u²/(2s), |u| ≤ sδ (every output by itself)
logistic               log(1 + exp(−yf)), y = ±1               Σ s(p log p + (1−p) log(1−p)), p = −uy/s in [0, 1]
hinge                  max(0, 1 − yf)                          Σ uy, 0 ≤ −uy ≤ s
squared-hinge          max(0, 1 − yf)²                         Σ uy + u²/(4s), uy ≤ 0
softmax-cross-entropy  log Σ_c exp f_c − f_y                   Σ s Σ_c q_c log q_c, q = e_y + u/s in the simplex
=====================  ======================================  ==================================================

Interpolation is the loss that is 0 at the targets and ∞ elsewhere, with C*(U) = ⟨U, Y⟩: :class:`Interpolation`.

The conjugates are those of Boyd and Vandenberghe, Convex Optimization, §3.3.
"""

from __future__ import annotations

import copy
from typing import Any

from covopt.checks.validation import check_choice
from covopt.losses.base import Loss
from covopt.losses.classification import Hinge, Logistic, SoftmaxCrossEntropy, SquaredHinge
from covopt.losses.regression import Huber, Interpolation, SquaredError

__all__ = [
    "LOSSES",
    "Hinge",
    "Huber",
    "Interpolation",
    "Logistic",
    "Loss",
    "SoftmaxCrossEntropy",
    "SquaredError",
    "SquaredHinge",
    "loss_from_dict",
    "make_loss",
]

LOSSES: dict[str, type[Loss]] = {
    kind.name: kind for kind in (SquaredError, Logistic, SoftmaxCrossEntropy, Huber, Hinge, SquaredHinge)
}


def make_loss(loss: str | Loss) -> Loss:
    """Return a new loss that is not bound to targets yet.

    Parameters
    ----------
    loss : str or Loss
        A name of :data:`LOSSES`, or an object such as ``Huber(delta=0.5)``, which is copied.

    Raises
    ------
    InputError
        For an unknown name.

    Examples
    --------
    >>> make_loss("huber")
    Huber(delta=1)
    """
    if isinstance(loss, Loss):
        fresh = copy.copy(loss)
        for name in ("targets", "weights", "classes", "column", "floor"):
            fresh.__dict__.pop(name, None)
        return fresh
    check_choice("loss", loss, tuple(LOSSES))
    return LOSSES[loss]()


def loss_from_dict(content: dict[str, Any]) -> Loss:
    """Return the loss described by :meth:`Loss.parameters`.

    Examples
    --------
    >>> loss_from_dict({"name": "huber", "delta": 0.5})
    Huber(delta=0.5)
    """
    options = {name: value for name, value in content.items() if name not in ("name", "classes", "column")}
    found = LOSSES[content["name"]](**options)
    if content.get("classes") is not None:
        found.classes = tuple(content["classes"])
    found.column = content.get("column")
    return found
