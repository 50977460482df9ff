// A walk over the rows of a CSR by several threads; see walk.cpp.
#pragma once
#include "problem.h"

// Returns 0, kOutOfRange (the CSR names a row or key that is not there) or kNoMemory.
int walk(const Problem& p, const Pass& pass, const Retirement* retirement = nullptr);
void walk_rows(const Problem& p, void (*body)(const Problem&, int64_t, int64_t));
