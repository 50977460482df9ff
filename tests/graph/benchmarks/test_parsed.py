from __future__ import annotations

from pathlib import Path
from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from m3dphormer.errors import UserError
from m3dphormer.graph.benchmarks.parsed import array_hash, canonical_edges, checked_csr, reading

PAIRS = st.lists(st.tuples(st.integers(0, 8), st.integers(0, 8)), max_size=30)


@given(PAIRS, st.randoms())
def test_canonical_edges_are_the_set_of_pairs_whatever_order_and_direction(
    pairs: list[tuple[int, int]], random: Random
) -> None:
    expected = sorted({(min(pair), max(pair)) for pair in pairs if pair[0] != pair[1]})
    shuffled = [pair[::-1] if random.random() < 0.5 else pair for pair in pairs + pairs[:3]]
    random.shuffle(shuffled)
    edges = canonical_edges(np.array(shuffled, dtype=np.int32).reshape(-1, 2).T, 9)
    assert edges.dtype == np.int64
    assert list(map(tuple, edges.T.tolist())) == expected


@pytest.mark.parametrize("end", [-1, 3])
def test_canonical_edges_refuse_nodes_that_do_not_exist(end: int) -> None:
    with pytest.raises(ValueError, match="outside 0 to 2"):
        canonical_edges(np.array([[0], [end]]), 3)


def test_array_hash_sees_content_shape_and_type_but_not_layout_or_byte_order() -> None:
    array = np.arange(6, dtype=np.int64).reshape(2, 3)
    same = [np.asfortranarray(array), array.astype(">i8")]
    others = [array.reshape(3, 2), array.astype(np.int32), array + 1]
    assert {array_hash(other) for other in same} == {array_hash(array)}
    assert len({array_hash(other) for other in [array, *others]}) == 4


def test_csr_indices_out_of_bounds_are_refused_before_they_are_used() -> None:
    with pytest.raises(ValueError, match="indices"):
        checked_csr(np.ones(1), np.array([7]), np.array([0, 1]), (1, 2))


def test_reading_names_the_file_in_one_line() -> None:
    with (
        pytest.raises(UserError, match=r"^a\.npz is truncated or not an npz file; .*\.$") as caught,
        reading(Path("a.npz"), "an npz file"),
    ):
        raise EOFError
    assert "\n" not in str(caught.value)


def test_reading_tells_a_missing_file_from_a_damaged_one(tmp_path: Path) -> None:
    path = tmp_path / "gone"
    message = "cannot be read: No such file"
    with pytest.raises(UserError, match=message), reading(path, "a file"):
        path.read_bytes()
