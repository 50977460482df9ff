// A walk over the rows of a CSR by several threads; see walk.cpp.
#pragma once
#include "problem.h"

// Both return 0, kOutOfRange (the CSR names a row or key that is not there) or kNoMemory.
int walk(const Problem& p, const int64_t* indptr, const int64_t* indices, const Pass& pass,
         void (*retire)(const Problem&, int64_t, int64_t, const void*), size_t spill_per_entry);
int walk_rows(const Problem& p, void (*body)(const Problem&, int64_t, int64_t));
