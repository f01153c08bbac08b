"""The command ``covopt gap``: how far a trained network is from the best one."""

from __future__ import annotations

from types import SimpleNamespace

from covopt.cli.report import Exit, left_out_lines
from covopt.cli.running import Answer, progress
from covopt.cli.targets import read_for_loss, strength_in

SAID = ("status", "ladder", "gap", "excess", "what", "formula", "notes", "findings", "tol", "time_s")
ASKED = ("weight_decay", "reduction", "bias", "output_bias", "standardise", "tol")


def gap(given: SimpleNamespace) -> Answer:
    """Say how far a trained ReLU network is from the best one of any width, and what would mend it."""
    with progress(given, "measuring"):
        if given.interpolation:
            given.loss = "squared"
        table, options, said = read_for_loss(given)
        if given.interpolation:
            options = {"loss": "interpolation"}
        from covopt.meter import gap as measure

        found = measure(
            given.model, table.features, table.targets, time_limit_s=given.time_limit,
            lam=None if given.lam is None else strength_in(given.lam),
            random_state=given.seed, **{name: getattr(given, name) for name in ASKED}, **options,
        )  # fmt: skip
    data, content = found.best.data, found.to_dict()
    record = {
        **{name: content[name] for name in SAID},
        "objective": found.objective, "lower_bound": found.lower_bound, "lam": found.best.lam,
        "n_samples": data.n_samples, "features": data.feature_names, "targets": data.target_names,
    }  # fmt: skip
    code = Exit.CERTIFIED if found.status.code == "certified" else Exit.NOT_CERTIFIED
    return Answer(
        code, record, [found.summary(), *said, *left_out_lines(table)], save=found.save, draw=found.plot
    )
