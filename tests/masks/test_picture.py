"""Pictures show what is in the mask: every pair in its cell, every role, nothing expanded."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from functools import reduce
from operator import or_

import matplotlib
import numpy as np
import pytest
import torch
from hypothesis import given
from matplotlib import pyplot
from matplotlib.axes import Axes
from torch import Tensor
from torch_geometric.data import Data

from graphs import any_graphs, random_graph
from m3dphormer import masks
from m3dphormer.errors import UserError
from m3dphormer.masks import Mask, picture, regions
from m3dphormer.masks.layout import Layout
from m3dphormer.masks.picture import CELLS, COLOURS, MIN_SHARE, Axis, count_pairs
from m3dphormer.masks.regions import Block

NINE = ["l1", "l2", "c1", "c2", "c3", "c4", "g1", "g2", "g3"]


@pytest.fixture(autouse=True)
def _no_windows() -> Iterator[None]:
    matplotlib.use("Agg")
    yield
    pyplot.close("all")


def nine(data: Data) -> list[Mask]:
    cluster = torch.arange(data.num_nodes) % 2 if data.num_nodes > 1 else torch.zeros(1).long()
    return [masks.build_from(name, data, {"clusters": cluster}) for name in NINE]


def by_hand(mask: Mask, axis: Axis) -> np.ndarray:
    """Counts by the dense mask, summed over the rows and then the columns of each cell."""
    cell = np.concatenate([axis.cell[role] for role in axis.spans])
    member = np.eye(axis.cells, dtype=int)[cell]  # [T, cells]
    return member.T @ mask.to_dense().numpy().astype(int) @ member


def opacity(ax: Axes) -> np.ndarray:
    """How dark each cell is drawn, [cells, cells]."""
    colours = np.asarray(ax.collections[0].get_array())
    return colours[..., 3]


@pytest.mark.filterwarnings("ignore::m3dphormer.errors.UserNotice")
@given(any_graphs())
def test_a_cell_counts_its_pairs_and_all_cells_count_the_mask(data: Data) -> None:
    built = nine(data)
    for mask in [*built, reduce(or_, built[2:])]:
        axis = Axis.of(mask.layout)
        counts = count_pairs(mask, axis)
        assert np.array_equal(counts, by_hand(mask, axis))
        assert counts.sum() == mask.nnz


def test_cells_of_many_rows_count_their_pairs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(regions, "CHUNK_PAIRS", 50)  # many chunks
    data = random_graph(nodes=500)
    cluster = torch.randint(7, (500,), generator=torch.Generator().manual_seed(0))
    for name in NINE:
        mask = masks.build_from(name, data, {"clusters": cluster})
        axis = Axis.of(mask.layout, cluster)
        assert axis.cells <= CELLS + 1
        assert np.array_equal(count_pairs(mask, axis), by_hand(mask, axis))
        assert axis.rows.sum() == mask.layout.total


def test_a_single_pair_is_seen_and_an_empty_cell_is_blank() -> None:
    data = random_graph(nodes=2000)
    ax = masks.from_edges(data, torch.tensor([[3], [1999]])).plot()
    drawn = opacity(ax)
    assert np.argwhere(drawn).tolist() == [[0, CELLS - 1]]
    assert drawn.max() >= picture.FAINTEST


def test_more_pairs_are_darker_and_a_full_cell_is_opaque() -> None:
    data = random_graph(nodes=2000)
    one, some = torch.tensor([[0], [0]]), torch.tensor([[0, 0, 0], [0, 1, 2]])
    levels = [opacity(masks.from_edges(data, pairs).plot()).max() for pairs in (one, some)]
    assert levels[0] < levels[1] < opacity(masks.g1(data).plot()).min() == 1


def test_the_colour_tells_who_looks_at_whom() -> None:
    data = random_graph()
    union = masks.c4(data, 4) | masks.c1(data, 4)
    colours = np.asarray(union.plot().collections[0].get_array())
    for query, row in ((False, 0), (True, -1)):
        for key, column in ((False, 0), (True, -1)):
            expected = matplotlib.colors.to_rgb(COLOURS[query, key][0])
            assert colours[row, column, :3] == pytest.approx(expected)


def test_every_role_is_labelled_on_both_sides_and_has_room() -> None:
    data = random_graph(nodes=600)
    mask = masks.c4(data, 5) | masks.g3(data) | masks.g2(data, 2)
    ax = mask.plot()
    expected = ["600\nnodes", "5\nclusters", "3\nclasses", "2\nvirtual"]
    assert [label.get_text() for label in ax.get_xticklabels()] == expected
    assert [label.get_text() for label in ax.get_yticklabels()] == expected
    spans = Axis.of(mask.layout).spans.values()
    assert all(stop - start > MIN_SHARE / 2 for start, stop in spans)
    assert ax.get_ylim() == (1, 0)  # the first query is at the top


def test_the_rows_stand_in_the_order_of_the_clusters() -> None:
    cluster = torch.tensor([1, 0, 2, 0, 1])
    axis = Axis.of(Layout(nodes=5, clusters=3), cluster)
    assert axis.cell["nodes"].tolist() == [2, 0, 4, 1, 3]
    assert axis.cell["clusters"].tolist() == [5, 6, 7]


def test_in_the_order_of_its_clusters_c3_is_blocks_on_the_diagonal() -> None:
    data, cluster = random_graph(nodes=20), torch.arange(20) % 2
    halves = torch.block_diag(torch.ones(10, 10), torch.ones(10, 10)).numpy()
    assert np.array_equal(opacity(masks.c3(data, cluster).plot(cluster=cluster)), halves)
    assert not np.array_equal(opacity(masks.c3(data, cluster).plot()), halves)


def test_the_given_axes_are_drawn_on_and_given_back() -> None:
    ax = pyplot.subplots()[1]
    assert masks.l2(random_graph()).plot(ax) is ax


@pytest.mark.parametrize("cluster", [torch.zeros(3), torch.zeros(60, 1)])
def test_a_cluster_vector_for_another_graph_is_refused(cluster: Tensor) -> None:
    with pytest.raises(UserError, match="for 60 nodes"):
        masks.l2(random_graph(nodes=60)).plot(cluster=cluster)


def test_g1_on_a_million_nodes_is_drawn_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    def expanded(*_: object) -> None:
        raise AssertionError("a block was expanded")

    monkeypatch.setattr(Block, "pairs", expanded)
    start = time.perf_counter()
    ax = masks.g1(Data(num_nodes=1_000_000)).plot()
    assert time.perf_counter() - start < 2
    assert "1,000,000,000,000 pairs, 100 %" in [text.get_text() for text in ax.texts]


def test_the_gallery_shows_nine_masks_under_one_partition() -> None:
    data = random_graph()
    figure = masks.gallery(data, clusters=5, hops=3, virtual=2)
    titles = [ax.get_title("left") for ax in figure.axes]
    expected = ["l1(hops=3)", "l2", *(f"c{i}(clusters=5)" for i in range(1, 5))]
    assert titles == [*expected, "g1", "g2(virtual=2)", "g3(classes=3)"]
    for ax, name in zip(figure.axes, NINE, strict=True):
        mask = masks.build_from(name, data, {"clusters": 5, "hops": 3, "virtual": 2})
        numbers = f"{mask.nnz:,} pairs, {100 * mask.density:.3g} %"
        assert numbers in [text.get_text() for text in ax.texts]
        drawn = count_pairs(mask, Axis.of(mask.layout, masks.assign(data, 5))) > 0
        assert np.array_equal(opacity(ax) > 0, drawn)


def test_nothing_is_drawn_over_anything_else_in_the_gallery() -> None:
    figure = masks.gallery(random_graph(), clusters=5)
    figure.canvas.draw()
    boxes = [ax.get_tightbbox() for ax in figure.axes] + [figure.legends[0].get_window_extent()]
    for i, box in enumerate(boxes):
        assert (figure.bbox.min <= box.min).all()
        assert (figure.bbox.max >= box.max).all()
        assert not any(box.overlaps(other) for other in boxes[:i])


def test_the_package_is_imported_without_matplotlib() -> None:
    code = "import sys, m3dphormer; sys.exit('matplotlib' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
