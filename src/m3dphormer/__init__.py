"""Graph transformers as attention masks: M3Dphormer, its mask framework, its rivals.

>>> import m3dphormer as m3d
>>> data = m3d.load("digits")
>>> clf = m3d.NodeClassifier(hidden=64, layers=2, heads=2).fit(data)
>>> clf.score(data, "test")
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
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

    __version__: str

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

ROOMS = {
    "attention": ("attend", "attend_additive"),
    "errors": ("UserError", "UserNotice"),
    "graph": ("datasets", "from_arrays", "from_data", "from_frames", "from_networkx", "load"),
    "masks": (),
    "models": ("check_model", "create_model", "list_models", "register_model"),
    "theory": (),
    "training": ("NodeClassifier", "plan", "train"),
}

if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        """A room or a public name, when it is first asked for: libraries take seconds to import.

        The command's entry point is in this package, and must be there before them for Ctrl-C.
        """
        for room, names in ROOMS.items():
            if name == room:
                return import_module(f"{__name__}.{room}")
            if name in names:
                globals()[name] = getattr(import_module(f"{__name__}.{room}"), name)
                return globals()[name]
        if name == "__version__":
            return import_module("importlib.metadata").version(__name__)
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

    def __dir__() -> list[str]:
        return sorted({*globals(), *__all__})
