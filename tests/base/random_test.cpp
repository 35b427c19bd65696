#include "base/random.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace perigee {
namespace {

TEST(Philox, MatchesThePublishedVectors) {
  // Known-answer vectors of Random123 (philox4x32-10).
  EXPECT_EQ(philox4x32(0, 0, 0), (std::array<uint32_t, 4>{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(philox4x32(~0ULL, ~0ULL, ~0ULL), (std::array<uint32_t, 4>{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(philox4x32(0x299f31d0a4093822ULL, 0x85a308d3243f6a88ULL, 0x0370734413198a2eULL),
            (std::array<uint32_t, 4>{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(PhiloxStream, NormalHasTheRightMoments) {
  PhiloxStream stream(7);
  constexpr int kCount = 200000;
  double sum = 0;
  double squares = 0;
  double fourth = 0;
  for (int i = 0; i < kCount; ++i) {
    const double x = stream.next_normal();
    sum += x;
    squares += x * x;
    fourth += x * x * x * x;
  }
  EXPECT_NEAR(sum / kCount, 0.0, 0.01);
  EXPECT_NEAR(squares / kCount, 1.0, 0.02);
  EXPECT_NEAR(fourth / kCount, 3.0, 0.15);
}

TEST(PhiloxStream, BelowIsUniformAndInRange) {
  PhiloxStream stream(3, 9);
  std::vector<int> counts(7);
  for (int i = 0; i < 70000; ++i) ++counts[stream.next_below(7)];
  for (const int count : counts) EXPECT_NEAR(count, 10000, 500);
}

TEST(PhiloxStream, SeedAndStreamMatter) {
  EXPECT_EQ(PhiloxStream(1, 2).next_u64(), PhiloxStream(1, 2).next_u64());
  EXPECT_NE(PhiloxStream(1, 2).next_u64(), PhiloxStream(1, 3).next_u64());
  EXPECT_NE(PhiloxStream(1, 2).next_u64(), PhiloxStream(2, 2).next_u64());
}

TEST(UniformFloat, StaysBelowOne) {
  EXPECT_LT(uniform_float(0xFFFFFFFF), 1.0F);
  EXPECT_EQ(uniform_float(0), 0.0F);
  EXPECT_LT(uniform_double(0xFFFFFFFF, 0xFFFFFFFF), 1.0);
}

}  // namespace
}  // namespace perigee
