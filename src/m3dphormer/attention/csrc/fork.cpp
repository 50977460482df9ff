#include "fork.h"

#include <pthread.h>

#include <atomic>

namespace {
std::atomic<bool> forked{false};
[[maybe_unused]] const int registered = pthread_atfork(nullptr, nullptr, [] { forked = true; });
}  // namespace

bool m3d_forked() { return forked; }
