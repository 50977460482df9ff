"""``attend`` and its additive sister: the name is the mathematics, ``scheme`` picks the code."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from m3dphormer.attention.dense import dense
from m3dphormer.attention.dropout import Dropout
from m3dphormer.attention.dual import dual
from m3dphormer.attention.fused import fused
from m3dphormer.attention.reference import reference
from m3dphormer.attention.scores import AdditiveScores, DotScores, Scores
from m3dphormer.attention.sparse import sparse
from m3dphormer.errors import UserError, unknown
from m3dphormer.masks import Mask

Scheme = Callable[[Scores, Tensor, Mask, Dropout | None], Tensor]
SCHEMES: dict[str, Scheme] = {
    "fused": fused,
    "sparse": sparse,
    "dual": dual,
    "dense": dense,
    "reference": reference,
}
DEFAULT_SCHEME = "fused"
KINDS = (torch.float32, torch.float64, torch.bfloat16, torch.float16)


def attend(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    mask: Mask,
    *,
    scheme: str = DEFAULT_SCHEME,
    dropout: float = 0.0,
    seed: int | None = None,
    call: int = 0,
) -> Tensor:
    r"""Scaled dot-product attention over a mask.

    .. math:: o_u = \sum_{v: M_{uv}=1} \mathrm{softmax}_v(q_u \cdot k_v / \sqrt{d_h})\, v_v

    Args:
        q, k, v: [T, H, d_h], T the total of the mask's layout; of one floating type, on one device.
        mask: Who may attend to whom. A row without keys gives exactly 0.
        scheme: How it is computed; never changes what is computed.
        dropout: Probability to drop a weight after the softmax, without renormalising.
        seed: Chooses what is dropped; None draws one from torch's generator.
        call: Tells several attentions under one seed apart.

    Returns:
        [T, H, d_h].
    """
    _check_kinds(q=q, k=k, v=v)
    if q.dim() != 3 or q.shape != k.shape:
        raise UserError(f"q and k must both be [T, H, d_h]. Got {_shape(q)} and {_shape(k)}.")
    return _run(DotScores(q, k), v, mask, scheme, dropout, seed, call)


def attend_additive(
    a: Tensor,
    b: Tensor,
    v: Tensor,
    mask: Mask,
    *,
    slope: float = 0.2,
    scheme: str = DEFAULT_SCHEME,
    dropout: float = 0.0,
    seed: int | None = None,
    call: int = 0,
) -> Tensor:
    """GAT-style attention: the score of (u, w) is LeakyReLU(a[u] + b[w]); a, b are [T, H].

    The other arguments are those of :func:`attend`.
    """
    _check_kinds(a=a, b=b, v=v)
    if a.dim() != 2 or a.shape != b.shape:
        raise UserError(f"a and b must both be [T, H]. Got {_shape(a)} and {_shape(b)}.")
    return _run(AdditiveScores(a, b, slope), v, mask, scheme, dropout, seed, call)


def _check_kinds(**given: Tensor) -> None:
    """Refuse what one scheme would take and another not: types, devices, nothing in a row."""
    names = "{}, {} and {}".format(*given)
    for name, tensor in given.items():
        if not isinstance(tensor, Tensor):
            raise UserError(f"{name} must be a torch.Tensor. Got {type(tensor).__name__}.")
        if 0 in tensor.shape[1:]:
            raise UserError(f"{name} needs a head and a width of 1 at least. Got {_shape(tensor)}.")
    if len({tensor.device for tensor in given.values()}) > 1:
        told = ", ".join(str(tensor.device) for tensor in given.values())
        raise UserError(f"{names} must be on one device. Got {told}.")
    kinds = [tensor.dtype for tensor in given.values()]
    if len(set(kinds)) > 1 or kinds[0] not in KINDS:
        known, told = (
            ", ".join(str(kind).removeprefix("torch.") for kind in some) for some in (KINDS, kinds)
        )
        raise UserError(f"{names} must have one type, of {known}. Got {told}.")


def _shape(tensor: Tensor) -> tuple[int, ...]:
    return tuple(tensor.shape)


def _run(
    scores: Scores,
    v: Tensor,
    mask: Mask,
    scheme: str,
    dropout: float,
    seed: int | None,
    call: int,
) -> Tensor:
    if scheme not in SCHEMES:
        raise unknown("scheme", scheme, SCHEMES)
    total = mask.layout.total
    if v.dim() != 3 or v.shape[0] != total or v.shape[1] != scores.heads or scores.rows != total:
        raise UserError(
            f"The mask {mask.name} has {total} rows; v must be [{total}, {scores.heads}, d_h] and "
            f"the scores must have as many. Got {_shape(v)} and {scores.rows}."
        )
    drop = None
    if dropout:
        drawn = int(torch.randint(2**62, ())) if seed is None else seed
        drop = Dropout(dropout, drawn, call)
    return SCHEMES[scheme](scores, v, mask, drop)
