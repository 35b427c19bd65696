// TaskPool: threads for the work around the model (parsing requests, tokenising, detokenising), so that neither the
// engine thread nor an io thread ever does it. Tasks run in any order; Strand gives order where one is needed.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "base/queue.h"

namespace perigee {

/// Fixed threads over one bounded queue. Thread-safe. Tasks must not throw.
class TaskPool {
 public:
  explicit TaskPool(int threads, size_t capacity = 1 << 16);
  /// Runs what was accepted, then joins.
  ~TaskPool();
  TaskPool(const TaskPool&) = delete;
  TaskPool& operator=(const TaskPool&) = delete;

  /// False when the queue is full (the caller answers 503).
  bool submit(std::function<void()> task);

 private:
  Queue<std::function<void()>> queue_;
  std::vector<std::thread> threads_;
};

/// Runs its tasks one after another, in order, on a TaskPool: one Strand per stream. Thread-safe. Keep it in a
/// shared_ptr: a running task holds it alive.
class Strand : public std::enable_shared_from_this<Strand> {
 public:
  explicit Strand(TaskPool& pool) : pool_(pool) {}
  void post(std::function<void()> task);

 private:
  void run();
  TaskPool& pool_;
  std::mutex mutex_;
  std::deque<std::function<void()>> tasks_;
  bool active_ = false;
};

}  // namespace perigee
