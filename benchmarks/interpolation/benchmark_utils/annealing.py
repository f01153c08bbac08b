"""How λ falls while a network trains: from where the penalty rules to where the points do.

Training with a small λ from the start meets the points anywhere and then slides along the interpolants at a speed
proportional to λ; a λ that falls by a constant factor arrives at the same place sooner. A user who wants the minimal
norm out of SGD would do this, so every trained network here does.
"""

TOP, BOTTOM = (
    1e-2,
    3e-7,
)  # of λ_max; at BOTTOM the penalised optimum, repaired, is within 0.1 % of the optimum
STAGES = 12  # for solvers whose λ is fixed within a call
SETTLED = 0.8  # after this share of the steps λ stays at BOTTOM
# learning rates fall geometrically to this share of the first
LAST_RATE = {"adam": 1e-2, "sgd": 1e-1, "gd": 0.3, "lbfgs": 1.0}


def lam_at(progress):
    """λ / λ_max after a share ``progress`` in [0, 1] of all steps."""
    return TOP * (BOTTOM / TOP) ** min(progress / SETTLED, 1.0)


def stages(steps):
    """Cut a number of steps into (λ / λ_max, steps, progress at the start), λ falling from stage to stage."""
    count = min(STAGES, steps)
    ends = [round(steps * (i + 1) / count) for i in range(count)]
    starts = [0, *ends[:-1]]
    return [
        (lam_at(i / max(count - 1, 1)), end - begin, begin / steps)
        for i, (begin, end) in enumerate(zip(starts, ends, strict=True))
    ]
