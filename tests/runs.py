"""Two runs to report on: a plain one, and one with everything that could break a page."""

from __future__ import annotations

from pathlib import Path

import numpy as np

import m3dphormer as m3d

SMALL = {"hidden": 8, "heads": 1, "layers": 2}
SCRIPT = "<script>alert(1)</script>"
ODD_NAMES = (SCRIPT, "R&D \"quoted\" 'twice'", "a very long name " * 12, "007", "NA")


def train_plain(place: Path) -> Path:
    """Two seeds on an embedded graph; gives the run's folder."""
    folder = place / "run"
    m3d.train("hierarchy", seeds=2, settings={**SMALL, "epochs": 12}, out=str(folder))
    return folder


def train_odd(place: Path) -> Path:
    """One seed, one epoch, names that are HTML or look like numbers, unlabelled nodes."""
    rng, graph = np.random.RandomState(0), place / "graph & more"
    graph.mkdir()
    quoted = ['"' + name.replace('"', '""') + '"' for name in ODD_NAMES]
    nodes = [
        f"<b>{i}</b>,{'' if i >= 100 else quoted[i % 5]},{rng.randn():.3f},{rng.randn():.3f}"
        for i in range(110)
    ]
    edges = [f"<b>{i}</b>,<b>{(i * i + 1) % 109}</b>" for i in range(109)]  # 109 has no neighbour
    (graph / "nodes.csv").write_text("\n".join(["id,label,a,b", *nodes]) + "\n")
    (graph / "edges.csv").write_text("\n".join(["source,target", *edges]) + "\n")
    m3d.train(str(graph), seeds=1, settings={**SMALL, "epochs": 1}, out=str(place / "run"))
    return place / "run"
