"""Many small networks trained at once in torch, and held against the certified optimum (extra ``[train]``)."""

from covopt.training.crosscheck import CrossCheck, cross_check, recheck
from covopt.training.runner import TrainingRun, train
from covopt.training.schedule import Phase
from covopt.training.sweep import Plateau, plateau

__all__ = ["CrossCheck", "Phase", "Plateau", "TrainingRun", "cross_check", "plateau", "recheck", "train"]
