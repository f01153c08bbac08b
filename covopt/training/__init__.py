"""Train many small networks at once in torch, and compare them with the certified optimum (extra ``[train]``)."""

from covopt.training.crosscheck import CrossCheck, cross_check, recheck
from covopt.training.runner import TrainingRun, train
from covopt.training.schedule import Phase
from covopt.training.sweep import Plateau, plateau

__all__ = ["CrossCheck", "Phase", "Plateau", "TrainingRun", "cross_check", "plateau", "recheck", "train"]
