// Queue<T>: a bounded queue between threads. Full means push fails at once; the caller says what that means.
#pragma once

#include <chrono>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <optional>
#include <utility>

namespace perigee {

template <class T>
class Queue {
 public:
  explicit Queue(size_t capacity) : capacity_(capacity) {}

  /// False when the queue is full or closed; `item` is then untouched.
  bool try_push(T&& item) {
    {
      const std::lock_guard lock(mutex_);
      if (closed_ || items_.size() >= capacity_) return false;
      items_.push_back(std::move(item));
    }
    wake_.notify_one();
    return true;
  }

  std::optional<T> try_pop() {
    const std::lock_guard lock(mutex_);
    return take();
  }

  /// Waits for an item; nothing after close() once the queue is empty.
  std::optional<T> pop() {
    std::unique_lock lock(mutex_);
    wake_.wait(lock, [this] { return closed_ || !items_.empty(); });
    return take();
  }

  /// Waits at most `timeout`.
  std::optional<T> pop_for(std::chrono::nanoseconds timeout) {
    std::unique_lock lock(mutex_);
    wake_.wait_for(lock, timeout, [this] { return closed_ || !items_.empty(); });
    return take();
  }

  void close() {
    {
      const std::lock_guard lock(mutex_);
      closed_ = true;
    }
    wake_.notify_all();
  }

  size_t size() const {
    const std::lock_guard lock(mutex_);
    return items_.size();
  }

 private:
  std::optional<T> take() {
    if (items_.empty()) return std::nullopt;
    std::optional<T> item(std::move(items_.front()));
    items_.pop_front();
    return item;
  }

  const size_t capacity_;
  mutable std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<T> items_;
  bool closed_ = false;
};

}  // namespace perigee
