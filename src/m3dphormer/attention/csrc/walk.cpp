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
// A pass may spill something for each entry (dz of additive attention). Units retire their spill in
// the order of the units, whoever finishes first, into a ring of slots.
#include "walk.h"

#include "fork.h"

#include <algorithm>
#include <atomic>
#include <cstdlib>
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
  char* memory = static_cast<char*>(std::calloc(bytes / 64 + 2, 64));
  if (!memory) throw std::bad_alloc();
  return Buffer(memory);
}

class Walk {
 public:
  Walk(const Problem& p, const Pass& pass, Retire retire)
      : p(p), indptr(pass.transposed ? p.t_indptr : p.indptr), indices(pass.transposed ? p.t_indices : p.indices),
        pass(pass), retire(retire), piece(std::min(std::max(p.entries / 256, kPiece), kLongest)) {
    if (indptr[0] != 0 || indptr[p.rows] != p.entries) bad = true;
    for (int64_t row = 0; row < p.rows; ++row) {
      if (indptr[row] > indptr[row + 1]) bad = true;
      if (bad) return;
      for (int64_t e = indptr[row]; length(row) > piece && e < indptr[row + 1]; e += piece)
        pieces.push_back({row, e, std::min(e + piece, indptr[row + 1])});
    }
    units = int64_t(pieces.size()) + (p.entries + kRow * p.rows) / kUnit + 1;
    states = buffer(pieces.size() * pass.state);
    if (retire) {
      slots = 2 * std::max<int64_t>(p.threads, 1);
      slot_bytes = (piece + kUnit) * pass.spill;
      ring = buffer(slots * slot_bytes);
      finished.assign(slots, 0);
    }
  }

  int run() {
    if (bad) return kOutOfRange;
    const int threads = int(std::min<int64_t>(p.threads, units));
    // Spill retires in the order of the units, so those that spill are taken in that order.
    Shares whole(retire ? 1 : threads, retire ? units : int64_t(pieces.size()));
    Shares rows(threads, retire ? 0 : units - int64_t(pieces.size()));
    on_threads(threads, [&](int thread) { work(thread, whole, rows); });
    const Buffer workspace = buffer(pass.workspace);
    for (size_t i = 0; i < pieces.size();) {
      size_t first = i;
      for (++i; i < pieces.size() && pieces[i].place == pieces[first].place; ++i) pass.merge(p, state(first), state(i));
      if (!bad) pass.finish(p, row_at(pieces[first].place), state(first), workspace.get());
    }
    return out_of_memory ? kNoMemory : bad ? kOutOfRange : 0;
  }

 private:
  void work(int thread, Shares& whole, Shares& rows) {
    Buffer own(static_cast<char*>(std::calloc(pass.state + pass.workspace + 128, 1)));
    if (!own) out_of_memory = true;
    const size_t workspace = (pass.state + 63) / 64 * 64;
    for (;;) {
      int64_t unit = whole.take(thread);
      if (unit < 0) unit = rows.take(thread), unit += unit < 0 ? 0 : int64_t(pieces.size());
      if (unit < 0) break;
      char* spill = nullptr;
      if (retire) {
        while (unit >= retired.load() + slots) std::this_thread::yield();
        spill = ring.get() + unit % slots * slot_bytes;
      }
      if (own && !bad) fold(unit, own.get(), own.get() + workspace, spill);
      if (retire) retire_until(unit);
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
    uint64_t most = 0;
    for (int64_t e = begin; e < end; ++e) most = std::max(most, uint64_t(ids[e]));
    if (begin < end && most >= uint64_t(p.rows)) bad = true;
    return !bad;
  }

  bool known(int64_t first, int64_t last) { return !p.order || within(p.order, first, last); }
  int64_t row_at(int64_t place) const { return p.order ? p.order[place] : place; }

  void retire_until(int64_t unit) {
    std::lock_guard<std::mutex> guard(lock);
    finished[unit % slots] = 1;
    for (int64_t at = retired; at < units && finished[at % slots]; retired = ++at) {
      finished[at % slots] = 0;
      if (!bad) retire_unit(at, ring.get() + at % slots * slot_bytes);
    }
  }

  void retire_unit(int64_t unit, const char* spill) {
    if (unit < int64_t(pieces.size())) return retire(p, pieces[unit].begin, pieces[unit].end, spill);
    int64_t first, last;
    rows_of(unit, &first, &last);
    for (int64_t row = first; row < last; ++row) {
      if (length(row) > piece) continue;
      retire(p, indptr[row], indptr[row + 1], spill);
      spill += length(row) * pass.spill;
    }
  }

  int64_t length(int64_t row) const { return indptr[row + 1] - indptr[row]; }
  char* state(size_t piece_number) { return states.get() + piece_number * pass.state; }

  const Problem& p;
  const int64_t *indptr, *indices;
  const Pass& pass;
  const Retire retire;
  const int64_t piece;
  std::vector<Piece> pieces;
  int64_t units = 0, slots = 0;
  size_t slot_bytes = 0;
  Buffer states, ring;
  std::vector<char> finished;
  std::mutex lock;
  std::atomic<int64_t> retired{0};
  std::atomic<bool> bad{false}, out_of_memory{false};
};

}  // namespace

int walk(const Problem& p, const Pass& pass, Retire retire) {
  try {
    return Walk(p, pass, retire).run();
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
