"""The constants of column generation, each with its reason."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Schedule:
    """How the rounds of column generation go; the defaults were measured on random planes.

    Attributes
    ----------
    seeds_per_row : float
        Random vertices ±w to start from, pairs for every row: most optimal neurons of noisy targets are vertices, and
        two to four times as many change little.
    start : float
        First multipliers, as a share of the largest weight that interpolates with the seeds: the first primal step is
        then nearly a whole one.
    floor : float
        Least slack of a new column, as a share of the excess h(Λ) − 1. Ten times as much doubles the rounds, since a
        slack that is far too large has to be worked off.
    entry : float
        Largest multiplier of a new column, as a share of what a column in use carries: one that enters close to its
        bound would else bring a weight that has to be worked off, and one far from it starts from nearly nothing.
    listed : float
        Neurons within this of one, or a tenth of the root of the gap, are asked for: soon they may exceed it.
    slack_of_gap : float
        Columns within this multiple of the root of the gap of their bound stay: heights move by about that.
    in_use : float
        Columns whose multiplier is this many times the mean product stay: the slack they have is far smaller than a
        column at rest has. Anything from 200 to 2000 does.
    drop_below : float
        Gap below which columns are dropped at all.
    worth_a_network : float
        Estimated distance of a network from the lower bound, in tolerances, below which it is made.
    networks_below : float
        Gap of the dual below which every whole step is tried as a network where there is a loss: that costs little.
    network_every : int
        Rounds after which one is made anyway, so that a bracket exists at any time.
    thins_networks : bool
        Whether that interval doubles each time: such a network costs as much as a round or two.
    stalled : int
        Rounds without progress of the bounds after which every restricted problem is solved before it is priced:
        where few constraints are active the dual is flat, and single steps wander in it.
    patient_steps : int
        Most Newton steps of such a solve.
    patient_accuracy : float
        Complementarity at which it ends, as a share of the gap: a loose, centred dual makes better columns.
    patient_slack, patient_slack_of_gap : float
        Columns stay longer then: within the first of their bound, or this many times ``slack_of_gap``.
    max_idle : int
        Rounds without a new column or a smaller gap after which rounding is all that is left.
    """

    seeds_per_row: float = 1.5
    start: float = 0.55
    floor: float = 0.03
    entry: float = 0.3
    listed: float = 0.02
    slack_of_gap: float = 1.0
    in_use: float = 600.0
    drop_below: float = 0.6
    worth_a_network: float = 3.0
    networks_below: float = 0.3
    network_every: int = 8
    thins_networks: bool = True
    stalled: int = 15
    patient_steps: int = 40
    patient_accuracy: float = 0.1
    patient_slack: float = 0.1
    patient_slack_of_gap: float = 10.0
    max_idle: int = 8

    def is_due(self, number: int) -> bool:
        """Whether a network is made in this round, counted from one, whatever it costs.

        Examples
        --------
        >>> schedule = Schedule()
        >>> [number for number in range(1, 100) if schedule.is_due(number)]
        [4, 12, 28, 60]
        """
        every, due = self.network_every, self.network_every // 2
        while due < number:
            due, every = due + every, 2 * every if self.thins_networks else every
        return due == number
