"""Does the vote of a mask's keys know where a transformer with that mask is right?"""

from m3dphormer.experiments.levels.rows import score_split
from m3dphormer.experiments.levels.suite import DATASETS, run_levels
from m3dphormer.experiments.levels.summary import summarise

__all__ = ["DATASETS", "run_levels", "score_split", "summarise"]
