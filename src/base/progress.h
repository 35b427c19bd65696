// Progress: a bar on stderr for long work (loading, writing a checkpoint). Draws only on a terminal, at most 10 times a
// second; add() may be called from many threads.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>

#include "base/clock.h"

namespace perigee {

class Progress {
 public:
  /// `total` in bytes; nothing is drawn when stderr is no terminal or `quiet`.
  Progress(std::string label, int64_t total, bool quiet = false);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  void add(int64_t bytes);

 private:
  void draw(int64_t done);
  std::string label_;
  int64_t total_;
  bool enabled_;
  TimePoint start_;
  std::atomic<int64_t> done_{0};
  std::atomic<int64_t> last_draw_ms_{-1000};
};

}  // namespace perigee
