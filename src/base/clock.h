// Clock: the time source of everything that has deadlines or measures latency, injected so that tests can turn it.
#pragma once

#include <chrono>

namespace perigee {

using Duration = std::chrono::nanoseconds;
using TimePoint = std::chrono::time_point<std::chrono::steady_clock, Duration>;

/// Monotonic time. Implementations are thread-safe.
class Clock {
 public:
  virtual ~Clock() = default;
  virtual TimePoint now() const = 0;
};

/// The machine's monotonic clock.
class SteadyClock final : public Clock {
 public:
  TimePoint now() const override { return std::chrono::steady_clock::now(); }
};

/// A clock that stands still until a test moves it. Not thread-safe.
class ManualClock final : public Clock {
 public:
  TimePoint now() const override { return now_; }
  void advance(Duration step) { now_ += step; }

 private:
  TimePoint now_{};
};

inline double seconds(Duration duration) {
  return std::chrono::duration<double>(duration).count();
}

}  // namespace perigee
