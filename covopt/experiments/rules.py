r"""Rules for the terms of R_L = L R⁽⁰⁾ + R⁽¹⁾ + R⁽²⁾/L + …: what a composition or a sum may cost.

BN23 Theorem 3 and Proposition 4, with what their proofs use and the statements leave out:

- **Composition** f ∘ g with R⁽⁰⁾(f ∘ g) = R⁽⁰⁾(f) = R⁽⁰⁾(g): R⁽¹⁾(f ∘ g) ≤ R⁽¹⁾(f) + R⁽¹⁾(g). The proof feeds g's
  output to f through σ, so g ≥ 0 on Ω (or an isometric embedding of g(Ω) into an orthant) is needed. Where this is an
  equality and both R⁽²⁾ ≥ 0, √R⁽²⁾(f ∘ g) ≤ √R⁽²⁾(f) + √R⁽²⁾(g).
- **Sum** f + g with R⁽⁰⁾(f + g) = R⁽⁰⁾(f) + R⁽⁰⁾(g): R⁽¹⁾(f + g) ≤ R⁽¹⁾(f) + R⁽¹⁾(g), and where this is an equality
  R⁽²⁾(f + g) ≤ R⁽²⁾(f) + R⁽²⁾(g). Both fail with a penalised output bias: f = g = ¼ have R⁽¹⁾ = 1/16 each, since
  R_L(constant c) = c² for c ≤ 1, and R⁽¹⁾(f + g) = ¼ > ⅛. So a sum is bounded without output bias only.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from covopt.checks.validation import check_output_bias
from covopt.depth.linear import Expansion


@dataclass(frozen=True)
class Rule:
    """What a rule gives: bounds on the terms of the whole, None where a condition failed.

    Attributes
    ----------
    r1, r2 : float or None
        Upper bounds.
    failed : tuple of str
        The conditions that do not hold, each in a sentence.
    """

    r1: float | None
    r2: float | None
    failed: tuple[str, ...] = ()


def of_composition(
    outer: Expansion,
    inner: Expansion,
    whole: Expansion | None = None,
    *,
    inner_is_nonnegative: bool,
    tol: float = 1e-9,
) -> Rule:
    """Bound R⁽¹⁾ and R⁽²⁾ of f ∘ g by those of f and g (BN23 Theorem 3 (1), Proposition 4 (1)).

    Parameters
    ----------
    outer, inner : Expansion
        Of f and of g.
    whole : Expansion, optional
        What is known of f ∘ g. Without it R⁽⁰⁾(f ∘ g) = R⁽⁰⁾(f) is taken for granted and R⁽²⁾ is not bounded.
    inner_is_nonnegative : bool
        Whether g ≥ 0 on the domain.
    tol : float
        Within which terms count as equal.

    Returns
    -------
    Rule

    Examples
    --------
    >>> of_composition(Expansion(2, 1.0, 0.5), Expansion(2, 0.5, 0.0), inner_is_nonnegative=True)
    Rule(r1=1.5, r2=None, failed=('R⁽¹⁾(f∘g) = R⁽¹⁾(f) + R⁽¹⁾(g) is needed for R⁽²⁾; it is not known',))
    >>> of_composition(Expansion(2, 1.0, 0.5), Expansion(1, 0.5, 0.0), inner_is_nonnegative=True).failed[0]
    'R⁽⁰⁾(f) = R⁽⁰⁾(g) is needed; they are 2 and 1'
    """
    failed = []
    if abs(outer.r0 - inner.r0) > tol:
        failed.append(f"R⁽⁰⁾(f) = R⁽⁰⁾(g) is needed; they are {outer.r0:g} and {inner.r0:g}")
    if whole is not None and abs(whole.r0 - outer.r0) > tol:
        failed.append(f"R⁽⁰⁾(f∘g) = R⁽⁰⁾(f) is needed; they are {whole.r0:g} and {outer.r0:g}")
    if not inner_is_nonnegative:
        failed.append("g ≥ 0 on the domain is needed: f takes its inputs through σ")
    if failed:
        return Rule(None, None, tuple(failed))
    r1 = outer.r1 + inner.r1
    reason = _not_additive("f∘g", whole, r1, tol)
    if reason is None and min(outer.r2, inner.r2) < 0:
        reason = f"R⁽²⁾ ≥ 0 is needed; they are {outer.r2:g} and {inner.r2:g}"
    if reason is not None:
        return Rule(r1, None, (reason,))
    return Rule(r1, (math.sqrt(outer.r2) + math.sqrt(inner.r2)) ** 2)


def of_sum(
    first: Expansion,
    second: Expansion,
    whole: Expansion | None = None,
    *,
    output_bias: str = "none",
    tol: float = 1e-9,
) -> Rule:
    """Bound R⁽¹⁾ and R⁽²⁾ of f + g by those of f and g (BN23 Theorem 3 (2), Proposition 4 (2)).

    Parameters
    ----------
    first, second : Expansion
        Of f and of g.
    whole : Expansion, optional
        What is known of f + g. Without it R⁽⁰⁾(f + g) = R⁽⁰⁾(f) + R⁽⁰⁾(g) is taken for granted and R⁽²⁾ is not
        bounded.
    output_bias : {"none", "penalized", "free"}
        Of the networks; the rule holds for "none".
    tol : float
        Within which terms count as equal.

    Returns
    -------
    Rule

    Examples
    --------
    >>> of_sum(Expansion(1, 1.0, 0.5), Expansion(1, 0.5, 0.0)).r1
    1.5
    >>> of_sum(Expansion(0, 1 / 16, 0.0), Expansion(0, 1 / 16, 0.0), output_bias="penalized").failed
    ("output_bias='none' is needed: with 'penalized' two constants of ¼ cost 1/16 each and their sum ¼",)
    """
    check_output_bias(output_bias, 1.0)
    failed = []
    if output_bias != "none":
        failed.append(
            f"output_bias='none' is needed: with {output_bias!r} two constants of ¼ cost 1/16 each and their sum ¼"
            if output_bias == "penalized"
            else "output_bias='none' is needed: that is what the proof covers"
        )
    if whole is not None and abs(whole.r0 - first.r0 - second.r0) > tol:
        failed.append(
            f"R⁽⁰⁾(f+g) = R⁽⁰⁾(f) + R⁽⁰⁾(g) is needed; they are {whole.r0:g} and {first.r0:g} + {second.r0:g}"
        )
    if failed:
        return Rule(None, None, tuple(failed))
    r1 = first.r1 + second.r1
    reason = _not_additive("f+g", whole, r1, tol)
    return Rule(r1, None, (reason,)) if reason is not None else Rule(r1, first.r2 + second.r2)


def _not_additive(name: str, whole: Expansion | None, r1: float, tol: float) -> str | None:
    need = f"R⁽¹⁾({name}) = R⁽¹⁾(f) + R⁽¹⁾(g) is needed for R⁽²⁾"
    if whole is None:
        return f"{need}; it is not known"
    return None if abs(whole.r1 - r1) <= tol else f"{need}; they are {whole.r1:g} and {r1:g}"
