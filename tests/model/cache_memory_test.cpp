// Sizes and layout of the caches: the byte counts of the released models, and views that neither overlap nor leave the
// buffer.

#include "model/cache_memory.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "cpu/ops.h"

namespace perigee {
namespace {

/// What cache sizes depend on, with the published dimensions of Kimi K3.
ModelConfig k3_config() {
  ModelConfig c;
  c.layers = 93;
  for (int64_t l = 1; l <= c.layers; ++l) c.is_mla.push_back(l % 4 == 0 || l == c.layers);
  c.kda_heads = 96;
  c.kda_head_dim = 128;
  c.conv_taps = 4;
  c.kv_lora_rank = 512;
  c.qk_rope = 64;
  return c;
}

ModelConfig kimi_linear_config() {
  ModelConfig c = k3_config();
  c.layers = 27;
  c.is_mla.clear();
  for (int64_t l = 1; l <= c.layers; ++l) c.is_mla.push_back(l % 4 == 0 || l == c.layers);
  c.kda_heads = 32;
  return c;
}

TEST(CacheMemoryTest, BytesOfKimiK3) {
  const ModelConfig c = k3_config();
  EXPECT_EQ(c.mla_layers(), 24);
  EXPECT_EQ(c.kda_layers(), 69);
  EXPECT_EQ(kv_bytes_per_token(c, DType::bf16), 27'648);
  EXPECT_EQ(kv_bytes_per_token(c, DType::f32), 55'296);
  constexpr int64_t kRecurrent = 434'110'464;   // 69 x 96 x 128 x 128 F32
  constexpr int64_t kHistory = 2 * 15'261'696;  // 69 x 3 x 36,864, published for BF16, kept in F32 here
  EXPECT_EQ(state_bytes_per_slot(c), kRecurrent + kHistory);
}

TEST(CacheMemoryTest, BytesOfKimiLinear) {
  const ModelConfig c = kimi_linear_config();
  EXPECT_EQ(kv_bytes_per_token(c, DType::bf16), 8'064);
  EXPECT_EQ(state_bytes_per_slot(c), int64_t{20} * 32 * 128 * 128 * 4 + int64_t{20} * 3 * 12'288 * 4);
}

TEST(CacheMemoryTest, ViewsTileTheBuffer) {
  ModelConfig c = kimi_linear_config();
  c.kda_heads = 3;
  c.kda_head_dim = 5;
  c.kv_lora_rank = 7;
  c.qk_rope = 2;
  const CacheShape shape{.kv_dtype = DType::bf16, .page_size = 3, .pages = 5, .slots = 2};
  const CacheMemory memory(reference_ops(), c, shape);
  ASSERT_EQ(memory.layers().size(), static_cast<size_t>(c.layers));
  std::vector<std::pair<const std::byte*, const std::byte*>> ranges;
  for (size_t l = 0; l < memory.layers().size(); ++l) {
    const LayerCache& layer = memory.layers()[l];
    EXPECT_EQ(layer.kv.rank != 0, c.is_mla[l]);
    EXPECT_EQ(layer.state.rank != 0, !c.is_mla[l]);
    EXPECT_EQ(layer.conv.rank != 0, !c.is_mla[l]);
    for (const View* view : {&layer.kv, &layer.state, &layer.conv}) {
      if (view->rank == 0) continue;
      EXPECT_EQ(reinterpret_cast<uintptr_t>(view->data) % 64, 0U);
      const int64_t bytes = view->elements() * dtype_bits(view->dtype) / 8;
      EXPECT_TRUE(std::all_of(view->data, view->data + bytes, [](std::byte b) { return b == std::byte{0}; }));
      ranges.emplace_back(view->data, view->data + bytes);
    }
  }
  std::sort(ranges.begin(), ranges.end());
  for (size_t i = 1; i < ranges.size(); ++i) EXPECT_LE(ranges[i - 1].second, ranges[i].first);
  EXPECT_LE(ranges.back().second - ranges.front().first, memory.bytes());
  const int64_t least =
      shape.pages * shape.page_size * kv_bytes_per_token(c, shape.kv_dtype) + shape.slots * state_bytes_per_slot(c);
  EXPECT_GE(memory.bytes(), least);
  EXPECT_LE(memory.bytes(), least + static_cast<int64_t>(ranges.size()) * 63);
}

}  // namespace
}  // namespace perigee
