from __future__ import annotations

import pytest
import torch

from graphs import random_graph
from m3dphormer import attend
from m3dphormer.attention.dropout import Dropout, hash_entries
from m3dphormer.masks import l2

IDS = torch.arange(300)


def kept(p: float = 0.3, seed: int = 0, call: int = 0, heads: int = 2) -> torch.Tensor:
    return Dropout(p, seed, call).scale(IDS[:, None], IDS[None, :], heads) > 0


@pytest.mark.parametrize("p", [0.1, 0.5, 0.9])
def test_the_share_dropped_is_p_in_every_head_and_along_rows_and_columns(p: float) -> None:
    dropped = (~kept(p)).double()  # [300, 300, 2]
    spread = (p * (1 - p)) ** 0.5
    assert (dropped.mean((0, 1)) - p).abs().max() < 4 * spread / 300
    for axis in (0, 1):
        assert (dropped.mean(axis) - p).abs().max() < 5 * spread / 300**0.5


def test_what_is_dropped_differs_between_seeds_calls_and_heads_without_correlation() -> None:
    base = kept(0.5)
    others = [kept(0.5, seed=1)[..., 0], kept(0.5, seed=2**40)[..., 0], kept(0.5, call=1)[..., 0]]
    for other in [*others, base[..., 1], base[..., 0].T]:
        agreement = (base[..., 0] == other).double().mean()
        assert abs(agreement - 0.5) < 4 * 0.5 / 300


def test_it_depends_on_ids_alone_not_on_their_order() -> None:
    order = torch.randperm(300, generator=torch.Generator().manual_seed(0))
    shuffled = Dropout(0.3, 7).scale(IDS[order][:, None], IDS[order][None, :], 2) > 0
    assert torch.equal(shuffled, kept(0.3, seed=7)[order][:, order])


def mix(word: int) -> int:
    word = (word ^ (word >> 16)) * 0x7FEB352D % 2**32
    word = (word ^ (word >> 15)) * 0x846CA68B % 2**32
    return word ^ (word >> 16)


def test_the_hash_is_the_one_that_kernels_and_saved_runs_rely_on() -> None:
    seed, call, heads = 2**40 + 12345, 3, 2
    queries, keys = [0, 70_000], [5, 2**20]
    low, high = seed % 2**32, (seed >> 32) + 1
    step = mix((mix(low) ^ mix(high) ^ (call * 0x9E3779B9)) % 2**32)
    written_out = [
        [mix((mix((u * heads + h) ^ step) + w * 0x9E3779B9) % 2**32) for h in range(heads)]
        for u, w in zip(queries, keys, strict=True)
    ]
    got = hash_entries(seed, call, torch.tensor(queries), torch.tensor(keys), heads)
    assert got.tolist() == written_out
    assert written_out == PINNED


PINNED = [[2515231476, 259772810], [2488712324, 3646669231]]


def test_the_mean_over_seeds_is_attention_without_dropout() -> None:
    mask = l2(random_graph(30))
    generator = torch.Generator().manual_seed(0)
    q, k, v = (torch.randn(30, 2, 4, generator=generator, dtype=torch.float64) for _ in range(3))
    runs = torch.stack([attend(q, k, v, mask, dropout=0.3, seed=seed) for seed in range(2000)])
    error = (runs.mean(0) - attend(q, k, v, mask)).abs()
    assert (error <= 5 * runs.std(0) / 2000**0.5 + 1e-12).all()
