// ThreadPool: the compute threads of one device. parallel_for splits a range statically, so results never depend on
// timing; workers spin briefly between calls and then park, so an idle or crowded machine is not burnt.
//
// Owned by the Device's creator; used by one caller at a time (the worker thread). The caller is thread 0.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

namespace perigee {

class ThreadPool {
 public:
  /// `threads` >= 1 counts the caller. With `pin`, thread i stays on the i-th CPU this process may use.
  explicit ThreadPool(int threads, bool pin = false);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int threads() const;

  /// Calls body(i, thread) for every i in [0, count), each once; thread in [0, threads()). Items are handed out one by
  /// one, so uneven items balance; which thread gets which item varies, so body must not depend on it except for
  /// scratch memory. Returns when all are done. body must not throw and must not call parallel_for.
  void parallel_for(int64_t count, const std::function<void(int64_t index, int thread)>& body);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// The number of CPUs this process may run on (affinity mask, not the machine).
int available_cpus();

}  // namespace perigee
