#include "base/task_pool.h"

namespace perigee {

TaskPool::TaskPool(int threads, size_t capacity) : queue_(capacity) {
  for (int i = 0; i < threads; ++i) {
    threads_.emplace_back([this] {
      while (auto task = queue_.pop()) (*task)();
    });
  }
}

TaskPool::~TaskPool() {
  queue_.close();
  for (auto& thread : threads_) thread.join();
}

bool TaskPool::submit(std::function<void()> task) {
  return queue_.try_push(std::move(task));
}

void Strand::post(std::function<void()> task) {
  {
    const std::lock_guard lock(mutex_);
    tasks_.push_back(std::move(task));
    if (active_) return;
    active_ = true;
  }
  // A full pool must not lose a stream's order or its end: run here instead.
  if (!pool_.submit([self = shared_from_this()] { self->run(); })) run();
}

void Strand::run() {
  for (;;) {
    std::function<void()> task;
    {
      const std::lock_guard lock(mutex_);
      if (tasks_.empty()) {
        active_ = false;
        return;
      }
      task = std::move(tasks_.front());
      tasks_.pop_front();
    }
    task();
  }
}

}  // namespace perigee
