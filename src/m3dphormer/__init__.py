"""Graph transformers as attention masks: M3Dphormer, its mask framework, its rivals.

>>> import m3dphormer as m3d
>>> data = m3d.load("digits")
>>> clf = m3d.NodeClassifier(hidden=64, layers=2, heads=2).fit(data)
>>> clf.score(data, "test")
"""

from importlib.metadata import version

from m3dphormer import masks, theory
from m3dphormer.attention import attend, attend_additive
from m3dphormer.errors import UserError, UserNotice
from m3dphormer.graph import (
    datasets,
    from_arrays,
    from_data,
    from_frames,
    from_networkx,
    load,
)
from m3dphormer.models import check_model, create_model, list_models, register_model
from m3dphormer.training import NodeClassifier, plan, train

__version__ = version("m3dphormer")

__all__ = [
    "NodeClassifier",
    "UserError",
    "UserNotice",
    "attend",
    "attend_additive",
    "check_model",
    "create_model",
    "datasets",
    "from_arrays",
    "from_data",
    "from_frames",
    "from_networkx",
    "list_models",
    "load",
    "masks",
    "plan",
    "register_model",
    "theory",
    "train",
]
