from __future__ import annotations

import pytest

from m3dphormer.errors import UserError
from m3dphormer.experiments.bench import cases, run_bench, suite


def test_every_setting_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def measure(task: dict[str, object]) -> list[dict[str, object]]:
        asked.append(dict(task))
        return [{"scheme": "x"}]

    monkeypatch.setattr(suite, "_measure", measure)
    said: list[str] = []
    table = run_bench(["cora", "pubmed"], root="files", watch=said.append)
    timed = [t for t in asked if t["part"] in ("attention", "epochs")]
    settings = {(t["graph"], t["part"], t.get("kind"), t["heap"], t["threads"]) for t in timed}
    assert len(settings) == len(timed) == 2 * 3 * 2 * 2
    grown = [t for t in asked if t["part"] == "growth"]
    assert sorted({t["nodes"] for t in grown}) == [2**p for p in range(12, 21)]
    assert {t["graph"] for t in grown} == set(cases.RANDOM_GRAPHS)
    memory = [t for t in asked if t["part"] == "attention memory"]
    assert {t["name"] for t in memory} == {*cases.forms("dot"), *cases.forms("additive")}
    assert all(t["root"] == "files" for t in asked)
    assert len(table) == len(asked) == len(said)


def test_one_real_measurement_in_a_fresh_process_with_its_heap_and_threads() -> None:
    table = run_bench(["hierarchy"], parts=["epochs"], seconds=0.0, heaps=["warm"])
    assert set(table["heap"]) == {"warm"}
    assert set(table["threads"]) == {1, 2}
    assert set(table["scheme"]) == set(cases.EPOCHS)
    assert ((table["q1"] > 0) & (table["q1"] <= table["median"])).all()
    assert (table["median"] <= table["q3"]).all()
    assert (table["repeats"] >= 3).all()


def test_a_measurement_that_fails_says_so() -> None:
    with pytest.raises(UserError, match=r"failed: .*KeyError: 'no such part'"):
        suite._measure({"part": "no such part", "heap": "default", "threads": 1})


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"graphs": ["corra"]}, "Unknown graph for the benchmark 'corra'. Did you mean cora"),
        ({"graphs": [], "parts": ["atention"]}, "Did you mean attention"),
        ({"graphs": [], "heaps": ["wram"]}, "Did you mean warm"),
        ({"graphs": [], "threads": [0]}, "'threads' parameter must be"),
    ],
)
def test_unknown_names_are_told_before_anything_runs(
    arguments: dict[str, list[object]], words: str
) -> None:
    with pytest.raises(UserError, match=words):
        run_bench(**arguments)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", cases.RANDOM_GRAPHS)
def test_random_graphs_have_the_same_mean_degree_at_every_size(name: str) -> None:
    for nodes in (2**12, 2**14):
        graph = cases.RANDOM_GRAPHS[name](nodes)
        assert graph.num_nodes == nodes
        assert 2 * graph.num_edges / nodes == pytest.approx(cases.DEGREE, rel=0.05)


def test_neighbours_of_the_geometric_graph_lie_near_each_other_in_memory() -> None:
    source, target = cases.geometric(2**14).edge_index
    assert (source - target).abs().double().median() < 2**14 / 16
