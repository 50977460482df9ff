"""A search in a database: Optuna's, shared by any number of processes, of which any may die.

A trial counts when it is complete or pruned. A study asked for n trials ends with n that count,
whoever ran them:

- A process begins a trial only where counted and running trials are fewer than n. Processes that
  begin one at the same moment compare trial numbers, and the highest give way.
- A running trial writes a heartbeat. Where it stops, the trial is failed by whoever notices, and
  what it had to try goes back into the queue. So does a trial that Ctrl-C ended.
- Nothing is tried twice, and no trial is begun on what a config refuses.

Sampling is TPE over all settings together. Pruning is by the median of the complete trials at the
same epoch, after a third of the epochs of all its splits: the halving pruners drop three of four
long before that, and with them every small learning rate, which leads late.
"""

from m3dphormer.training.study.search import Objective, Pruned, Question, Report, Search
from m3dphormer.training.study.trials import Ended

__all__ = ["Ended", "Objective", "Pruned", "Question", "Report", "Search"]
