"""The ablations of M3Dphormer: what each part is worth, beside the paper's numbers."""

from m3dphormer.experiments.ablations.suite import run_ablations
from m3dphormer.experiments.ablations.summary import summarise
from m3dphormer.experiments.ablations.variants import EXPERIMENTS, VARIANTS, Experiment

__all__ = ["EXPERIMENTS", "VARIANTS", "Experiment", "run_ablations", "summarise"]
