// Number formats, views, arena.

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <limits>

#include "tensor/arena.h"
#include "tensor/dtype.h"
#include "tensor/view.h"

namespace perigee {
namespace {

Ops heap_ops() {
  Ops ops = null_ops();
  ops.allocate = [](int64_t bytes) -> void* {
    void* data = std::aligned_alloc(64, static_cast<size_t>((bytes + 63) / 64 * 64));
    std::memset(data, 0, static_cast<size_t>(bytes));
    return data;
  };
  ops.release = [](void* data, int64_t) { std::free(data); };
  return ops;
}

TEST(Bf16, RoundsToNearestEven) {
  EXPECT_EQ(to_bf16(1.0F).bits, 0x3F80);
  EXPECT_EQ(to_bf16(std::bit_cast<float>(0x3F808000U)).bits, 0x3F80);  // tie, even below
  EXPECT_EQ(to_bf16(std::bit_cast<float>(0x3F818000U)).bits, 0x3F82);  // tie, even above
  EXPECT_EQ(to_bf16(std::bit_cast<float>(0x3F808001U)).bits, 0x3F81);
  EXPECT_EQ(to_bf16(std::numeric_limits<float>::max()).bits, 0x7F80);  // rounds to infinity
  EXPECT_TRUE(std::isnan(to_float(to_bf16(std::bit_cast<float>(0x7F800001U)))));
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    const bf16 value{static_cast<uint16_t>(bits)};
    if (!std::isnan(to_float(value))) {
      EXPECT_EQ(to_bf16(to_float(value)).bits, bits);
    }
  }
}

TEST(E8m0, IsAPowerOfTwo) {
  for (int scale = 0; scale < 255; ++scale) {
    EXPECT_EQ(e8m0_to_float(static_cast<uint8_t>(scale)), std::ldexp(1.0F, scale - 127)) << scale;
  }
  EXPECT_TRUE(std::isnan(e8m0_to_float(255)));
}

TEST(View, RowsColsAtAndSplitAddressTheSameMemory) {
  float data[24];
  for (int i = 0; i < 24; ++i) data[i] = static_cast<float>(i);
  const View whole(data, DType::f32, {4, 6});
  EXPECT_TRUE(whole.contiguous());
  const View part = whole.rows(1, 2).cols(2, 3);
  EXPECT_FALSE(part.contiguous());
  EXPECT_EQ(part.row<float>(1)[2], 16.0F);
  const View split = whole.split(2, 3);
  EXPECT_EQ(split.at(3).row<float>(1)[0], 21.0F);
  EXPECT_EQ(whole.elements(), 24);
}

TEST(View, PackedRowsAreHalfBytes) {
  uint8_t data[32];
  const View packed(data, DType::mxfp4, {2, 32});
  EXPECT_EQ(packed.rows(1, 1).as<uint8_t>(), data + 16);
}

TEST(ViewDeathTest, WrongUseIsNamed) {
  float data[4];
  const View view(data, DType::f32, {2, 2});
  EXPECT_DEATH(view.rows(1, 2), "rows \\[1, \\+2\\) of 2");
  EXPECT_DEATH(view.as<int32_t>(), "view is F32, asked as I32");
}

TEST(Arena, CountsWithoutMemoryAsItWouldAllocate) {
  Arena counter;
  counter.make(DType::f32, {3, 5});
  {
    const Arena::Scope scope(counter);
    counter.make(DType::bf16, {7});
  }
  const View last = counter.make(DType::i32, {2});
  EXPECT_FALSE(last.empty());
  EXPECT_EQ(counter.used(), 128);
  EXPECT_EQ(counter.high_water(), 128);

  const Ops ops = heap_ops();
  Arena arena(ops, counter.high_water());
  const View a = arena.make(DType::f32, {3, 5});
  const View b = arena.make(DType::i32, {2});
  EXPECT_EQ(b.data - a.data, 64);
  arena.reset();
  EXPECT_EQ(arena.make(DType::u8, {1}).data, a.data);
}

TEST(ArenaDeathTest, FullIsAProgrammersFault) {
  const Ops ops = heap_ops();
  EXPECT_DEATH(
      {
        Arena arena(ops, 64);
        arena.make(DType::f32, {17});
      },
      "arena of 64 bytes is full");
}

TEST(Buffer, ExhaustionIsAFullSentence) {
  EXPECT_THROW(
      {
        try {
          Buffer buffer(null_ops(), 1000000000);
        } catch (const std::runtime_error& error) {
          EXPECT_STREQ(error.what(), "cannot allocate 1.00 GB on the null device");
          throw;
        }
      },
      std::runtime_error);
}

}  // namespace
}  // namespace perigee
