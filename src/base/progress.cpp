#include "base/progress.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>

namespace perigee {

Progress::Progress(std::string label, int64_t total, bool quiet)
    : label_(std::move(label)), total_(total), enabled_(!quiet && ::isatty(2) == 1), start_(SteadyClock().now()) {}

Progress::~Progress() {
  if (enabled_) std::fputs("\r\033[K", stderr);
}

void Progress::add(int64_t bytes) {
  const int64_t done = done_.fetch_add(bytes) + bytes;
  if (!enabled_) return;
  const auto now_ms = static_cast<int64_t>(seconds(SteadyClock().now() - start_) * 1e3);
  int64_t last = last_draw_ms_.load();
  if (now_ms - last >= 100 && last_draw_ms_.compare_exchange_strong(last, now_ms)) draw(done);
}

void Progress::draw(int64_t done) {
  constexpr int kWidth = 30;
  const double share = total_ > 0 ? std::min(1.0, static_cast<double>(done) / static_cast<double>(total_)) : 1.0;
  const int filled = static_cast<int>(share * kWidth);
  const double elapsed = std::max(1e-3, seconds(SteadyClock().now() - start_));
  const std::string line =
      fmt::format("\r\033[K{} [{}{}] {:3.0f}% {:.2f}/{:.2f} GB {:.2f} GB/s", label_, std::string(filled, '#'),
                  std::string(kWidth - filled, '.'), share * 100, static_cast<double>(done) / 1e9,
                  static_cast<double>(total_) / 1e9, static_cast<double>(done) / 1e9 / elapsed);
  std::fputs(line.c_str(), stderr);
  std::fflush(stderr);
}

}  // namespace perigee
