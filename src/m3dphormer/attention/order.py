"""In which order the fused kernels walk a mask's rows: neighbours close together, so that the rows
they share are still in the cache. METIS cuts the graph; rows of one part follow each other.
"""

from __future__ import annotations

import torch
from torch import Tensor

from m3dphormer.masks import CSR, Mask
from m3dphormer.masks.partition import cut

ROWS_OF_A_PART = 128
SMALLEST = 2**16  # pairs; the keys of smaller masks stay in the cache anyway
LARGEST = 2**23  # pairs; a cut of more takes longer than many an epoch

Index = tuple[Tensor, Tensor, Tensor, Tensor, Tensor | None]


def index_of(mask: Mask) -> Index:
    """indptr and indices of the mask and of its transpose, and the row at each place; made once."""
    known = mask.memo.get("index")
    if known is None:
        csr = mask.to_csr()
        known = mask.memo["index"] = _index(csr, _order(csr))
    index: Index = known
    return index


def ordered_like(whole: Mask, part: Mask) -> Mask:
    """The part of a mask, whose rows are walked in the order of the whole one's."""
    part.memo["index"] = _index(part.to_csr(), index_of(whole)[4])
    return part


def _order(csr: CSR) -> Tensor | None:
    """The row at each place; None: each at its own."""
    parts = (len(csr.indptr) - 1) // ROWS_OF_A_PART
    if csr.transpose is not csr or not SMALLEST <= len(csr.indices) <= LARGEST or parts < 2:
        return None
    return cut(csr.indptr, csr.indices, parts).argsort(stable=True)


def _index(csr: CSR, order: Tensor | None) -> Index:
    other = csr.transpose
    mine = _placed(csr, order)
    return *mine, *(mine if other is csr else _placed(other, order)), order


def _placed(csr: CSR, order: Tensor | None) -> tuple[Tensor, Tensor]:
    if order is None:
        return csr.indptr, csr.indices
    lengths = csr.indptr.diff()[order]
    indptr = torch.cat([lengths.new_zeros(1), lengths.cumsum(0)])
    shift = (csr.indptr[order] - indptr[:-1]).repeat_interleave(lengths)
    return indptr, csr.indices[shift + torch.arange(len(shift))]
