"""The gap over time, with a word about solvers that had no time to go on."""

from benchmark_utils.stopping import UntilCertified
from benchopt.plotting.default_plots import ObjectiveCurvePlot


class Plot(ObjectiveCurvePlot):
    name = "gap"
    options = {"dataset": ..., "objective": ...}

    def plot(self, df, dataset, objective):
        curves = super().plot(df, dataset, objective, "objective_gap", "Time")
        for curve in curves:
            gaps = [{"objective_gap": gap} for gap in curve["y"]]
            ran = len(gaps) - 1  # the first is the network without neurons
            if not UntilCertified(patience=2).check_convergence(gaps)[0]:
                curve["label"] += f" (timed out after {ran} evaluation{'s' * (ran != 1)})"
        return curves

    def get_metadata(self, df, dataset, objective):
        return super().get_metadata(df, dataset, objective, "", "Time (s)") | {"ylabel": "relative gap"}
