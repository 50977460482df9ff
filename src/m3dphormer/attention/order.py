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
        known = mask.memo["index"] = _index(mask.to_csr())
    index: Index = known
    return index


def _index(csr: CSR) -> Index:
    other = csr.transpose
    rows = len(csr.indptr) - 1
    parts = rows // ROWS_OF_A_PART
    if other is not csr or not SMALLEST <= len(csr.indices) <= LARGEST or parts < 2:
        return csr.indptr, csr.indices, other.indptr, other.indices, None
    order = cut(csr.indptr, csr.indices, parts).argsort(stable=True)
    lengths = csr.indptr.diff()[order]
    indptr = torch.cat([lengths.new_zeros(1), lengths.cumsum(0)])
    shift = (csr.indptr[order] - indptr[:-1]).repeat_interleave(lengths)
    indices = csr.indices[shift + torch.arange(len(shift))]
    return indptr, indices, indptr, indices, order
