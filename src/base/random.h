// Philox4x32-10: a counter-based random generator. The same (key, counter) gives the same bits on every machine and
// thread, so a seed fixes a sampled text whatever the batch, and a synthetic weight whatever the order of writing.
//
// Source: Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011 (the constants and the round).
#pragma once

#include <array>
#include <cstdint>

namespace perigee {

/// One block of four 32-bit words for a 64-bit key and a 128-bit counter.
std::array<uint32_t, 4> philox4x32(uint64_t key, uint64_t counter_low, uint64_t counter_high);

/// A uniform float in [0, 1) from the top 24 bits of `bits`.
inline float uniform_float(uint32_t bits) {
  return static_cast<float>(bits >> 8) * 0x1.0p-24F;
}

/// A uniform double in [0, 1) from two words.
inline double uniform_double(uint32_t high, uint32_t low) {
  return static_cast<double>((static_cast<uint64_t>(high) << 21) ^ (low >> 11)) * 0x1.0p-53;
}

/// A sequential stream over philox4x32 with key `seed` and a fixed `stream` number.
class PhiloxStream {
 public:
  explicit PhiloxStream(uint64_t seed, uint64_t stream = 0) : seed_(seed), stream_(stream) {}

  uint32_t next_u32();
  uint64_t next_u64() { return (static_cast<uint64_t>(next_u32()) << 32) | next_u32(); }
  /// Uniform in [0, bound), bound > 0 (multiply-shift; the bias is below bound / 2^64).
  uint64_t next_below(uint64_t bound);
  double next_double() {
    const uint32_t high = next_u32();
    return uniform_double(high, next_u32());
  }
  /// Standard normal (Box-Muller).
  float next_normal();

 private:
  uint64_t seed_;
  uint64_t stream_;
  uint64_t block_ = 0;
  std::array<uint32_t, 4> words_{};
  int used_ = 4;
  float spare_ = 0;
  bool has_spare_ = false;
};

}  // namespace perigee
