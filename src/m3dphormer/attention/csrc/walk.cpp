// Work is cut into units that depend on the mask alone: runs of whole rows of about kUnit entries, and
// pieces of rows that are longer than a piece may be. A thread takes the units of its share, then what
// the others have left, so hubs and power laws balance; each row is folded by one thread, or piece by
// piece and merged in the order of the pieces. So the bits do not depend on the number of threads.
// There are no atomics on results.
//
// Shares are the halves (thirds, ...) that torch's own operators and OpenMP's static schedule give a
// thread: it finds rows in its cache that it wrote in the operator before. Where cores do not share a
// cache, that is worth more than the work itself on small graphs.
//
// A pass may spill something for each entry (dz of additive attention), to be added to sums [T, H].
// The units make kStrands strands, each with sums of its own. Units of a strand retire their spill in
// order, whoever finishes first, from a ring of slots; the strands' sums are added in order at the end.
#include "walk.h"

#include "fork.h"

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <mutex>
#include <new>
#include <thread>
#include <vector>
#ifdef _OPENMP
#include <omp.h>
#endif

namespace {

constexpr int64_t kUnit = 512;   // entries, with kRow for each row, in a unit of whole rows
constexpr int64_t kRow = 4;      // what a row costs beside its entries
constexpr int64_t kPiece = 2048; // entries of a piece, at least
constexpr int64_t kLongest = 16384;
constexpr int kStrands = 2;

template <class Body> void on_threads(int threads, const Body& body) {
  if (threads <= 1 || m3d_forked()) return body(0);
#ifdef _OPENMP
#pragma omp parallel num_threads(threads)
  body(omp_get_thread_num());
#else
  body(0);
#endif
}

// The numbers from 0 to count, each taken once.
class Shares {
 public:
  Shares(int threads, int64_t count) : shares(std::max(threads, 1)) {
    const int64_t n = int64_t(shares.size());
    for (int64_t i = 0; i < n; ++i) shares[i].next = count * i / n, shares[i].end = count * (i + 1) / n;
  }

  // The next of a thread's share, or of another's; -1 where none is left.
  int64_t take(int thread) {
    for (size_t i = 0; i < shares.size(); ++i) {
      Share& share = shares[(thread + i) % shares.size()];
      if (share.next.load(std::memory_order_relaxed) >= share.end) continue;
      const int64_t taken = share.next.fetch_add(1, std::memory_order_relaxed);
      if (taken < share.end) return taken;
    }
    return -1;
  }

 private:
  struct alignas(64) Share {
    std::atomic<int64_t> next{0};
    int64_t end = 0;
  };
  std::vector<Share> shares;
};

struct Piece {
  int64_t place, begin, end;
};

struct Free {
  void operator()(void* p) const { std::free(p); }
};
using Buffer = std::unique_ptr<char, Free>;

Buffer buffer(size_t bytes) {
  bytes = bytes / 64 * 64 + 128;
  char* memory = static_cast<char*>(std::aligned_alloc(64, bytes));
  if (!memory) throw std::bad_alloc();
  return Buffer(memory);
}

Buffer zeros(size_t bytes) {
  Buffer memory = buffer(bytes);
  std::memset(memory.get(), 0, bytes);
  return memory;
}

struct Strand {
  int64_t first, end, slots;  // units
  size_t slot_bytes;
  char* sums;
  Buffer ring, own_sums;
  std::vector<char> finished;
  std::mutex lock;
  std::atomic<int64_t> retired;

  char* slot(int64_t unit) { return ring.get() + unit % slots * slot_bytes; }
};

class Walk {
 public:
  Walk(const Problem& p, const Pass& pass, const Retirement* retirement)
      : p(p), indptr(pass.transposed ? p.t_indptr : p.indptr), indices(pass.transposed ? p.t_indices : p.indices),
        pass(pass), retirement(retirement), piece(std::min(std::max(p.entries / 256, kPiece), kLongest)) {
    if (indptr[0] != 0 || indptr[p.rows] != p.entries) bad = true;
    int64_t longest = 0;  // of what a unit folds at once
    for (int64_t row = 0; row < p.rows; ++row) {
      if (indptr[row] > indptr[row + 1]) bad = true;
      if (bad) return;
      longest = std::max(longest, std::min(length(row), piece));
      for (int64_t e = indptr[row]; length(row) > piece && e < indptr[row + 1]; e += piece)
        pieces.push_back({row, e, std::min(e + piece, indptr[row + 1])});
    }
    units = int64_t(pieces.size()) + (p.entries + kRow * p.rows) / kUnit + 1;
    states = zeros(pieces.size() * pass.state);
    for (int i = 0; retirement && i < kStrands; ++i) {
      Strand& strand = strands[i];
      strand.first = strand.retired = units * i / kStrands, strand.end = units * (i + 1) / kStrands;
      strand.slots = std::max<int64_t>(p.threads, 1) + 1, strand.slot_bytes = (longest + kUnit) * pass.spill;
      strand.ring = buffer(strand.slots * strand.slot_bytes), strand.finished.assign(strand.slots, 0);
      if (i > 0) strand.own_sums = zeros(p.rows * pass.spill);
      strand.sums = i > 0 ? strand.own_sums.get() : static_cast<char*>(p.grad_a);
    }
  }

  int run() {
    if (bad) return kOutOfRange;
    const int threads = int(std::min<int64_t>(p.threads, units));
    // Spill retires in the order of a strand's units, so those that spill are taken in that order.
    Shares whole(retirement ? kStrands : threads, retirement ? units : int64_t(pieces.size()));
    Shares rows(threads, retirement ? 0 : units - int64_t(pieces.size()));
    on_threads(threads, [&](int thread) { work(thread, whole, rows); });
    const Buffer workspace = zeros(pass.workspace);
    for (size_t i = 0; i < pieces.size();) {
      size_t first = i;
      for (++i; i < pieces.size() && pieces[i].place == pieces[first].place; ++i) pass.merge(p, state(first), state(i));
      if (!bad) pass.finish(p, row_at(pieces[first].place), state(first), workspace.get());
    }
    for (int i = 1; retirement && i < kStrands; ++i) retirement->join(p, strands[i].sums);
    return out_of_memory ? kNoMemory : bad ? kOutOfRange : 0;
  }

 private:
  void work(int thread, Shares& whole, Shares& rows) {
    const size_t workspace = (pass.state + 63) / 64 * 64;
    Buffer own;
    try {
      own = zeros(workspace + pass.workspace);
    } catch (const std::bad_alloc&) {
      out_of_memory = true;
    }
    for (;;) {
      int64_t unit = whole.take(thread);
      if (unit < 0) unit = rows.take(thread), unit += unit < 0 ? 0 : int64_t(pieces.size());
      if (unit < 0) break;
      Strand* strand = retirement ? &strand_of(unit) : nullptr;
      while (strand && unit >= strand->retired.load() + strand->slots) std::this_thread::yield();
      if (own && !bad) fold(unit, own.get(), own.get() + workspace, strand ? strand->slot(unit) : nullptr);
      if (strand) retire_until(*strand, unit);
    }
  }

  void fold(int64_t unit, void* row_state, void* workspace, char* spill) {
    if (unit < int64_t(pieces.size())) {
      const Piece& at = pieces[unit];
      if (within(indices, at.begin, at.end) && known(at.place, at.place + 1))
        pass.piece(p, row_at(at.place), at.begin, at.end, state(unit), workspace, spill);
      return;
    }
    int64_t first, last;
    rows_of(unit, &first, &last);
    if (within(indices, indptr[first], indptr[last]) && known(first, last))
      pass.rows(p, first, last, piece, row_state, workspace, spill);
  }

  // Rows whose cost so far, entries + kRow * row, falls into the unit's share.
  void rows_of(int64_t unit, int64_t* first, int64_t* last) const {
    const int64_t from = (unit - int64_t(pieces.size())) * kUnit;
    *first = first_row(from), *last = first_row(from + kUnit);
  }

  int64_t first_row(int64_t cost) const {
    int64_t low = 0, high = p.rows;
    while (low < high) {
      const int64_t middle = (low + high) / 2;
      if (indptr[middle] + kRow * middle < cost) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  bool within(const int64_t* ids, int64_t begin, int64_t end) {
    // The top bit of id, or of rows - 1 - id, is set outside; unlike a maximum of 64 bits, vectors do that.
    uint64_t outside = 0;
    for (int64_t e = begin; e < end; ++e) outside |= uint64_t(ids[e]) | (uint64_t(p.rows) - 1 - uint64_t(ids[e]));
    if (outside >> 63) bad = true;
    return !bad;
  }

  bool known(int64_t first, int64_t last) { return !p.order || within(p.order, first, last); }
  int64_t row_at(int64_t place) const { return p.order ? p.order[place] : place; }

  Strand& strand_of(int64_t unit) {
    int i = 0;
    while (unit >= strands[i].end) ++i;
    return strands[i];
  }

  void retire_until(Strand& strand, int64_t unit) {
    std::lock_guard<std::mutex> guard(strand.lock);
    strand.finished[unit % strand.slots] = 1;
    for (int64_t at = strand.retired; at < strand.end && strand.finished[at % strand.slots]; strand.retired = ++at) {
      strand.finished[at % strand.slots] = 0;
      if (!bad && !out_of_memory) retire_unit(at, strand.slot(at), strand.sums);
    }
  }

  void retire_unit(int64_t unit, const char* spill, char* sums) {
    if (unit < int64_t(pieces.size())) return retirement->retire(p, pieces[unit].begin, pieces[unit].end, spill, sums);
    int64_t first, last;
    rows_of(unit, &first, &last);
    for (int64_t row = first; row < last;) {
      const int64_t begin = row;  // rows in a row that are no longer than a piece
      while (row < last && length(row) <= piece) ++row;
      retirement->retire(p, indptr[begin], indptr[row], spill, sums);
      spill += (indptr[row] - indptr[begin]) * pass.spill;
      while (row < last && length(row) > piece) ++row;
    }
  }

  int64_t length(int64_t row) const { return indptr[row + 1] - indptr[row]; }
  char* state(size_t piece_number) { return states.get() + piece_number * pass.state; }

  const Problem& p;
  const int64_t *indptr, *indices;
  const Pass& pass;
  const Retirement* const retirement;
  const int64_t piece;
  std::vector<Piece> pieces;
  int64_t units = 0;
  Buffer states;
  Strand strands[kStrands];
  std::atomic<bool> bad{false}, out_of_memory{false};
};

}  // namespace

int walk(const Problem& p, const Pass& pass, const Retirement* retirement) {
  try {
    return Walk(p, pass, retirement).run();
  } catch (const std::bad_alloc&) {
    return kNoMemory;
  }
}

void walk_rows(const Problem& p, void (*body)(const Problem&, int64_t, int64_t)) {
  constexpr int64_t kRows = 256;
  const int threads = int(std::min<int64_t>(p.threads, p.rows / kRows + 1));
  Shares shares(threads, (p.rows + kRows - 1) / kRows);
  on_threads(threads, [&](int thread) {
    for (int64_t run; (run = shares.take(thread)) >= 0;)
      body(p, run * kRows, std::min((run + 1) * kRows, p.rows));
  });
}
