#include "model/cache_memory.h"

namespace perigee {
namespace {

constexpr int64_t kAlign = 64;

int64_t aligned(int64_t bytes) {
  return (bytes + kAlign - 1) / kAlign * kAlign;
}

int64_t bytes_of(const View& view) {
  return view.elements() * dtype_bits(view.dtype) / 8;
}

/// The views of layer `l`, all at address null.
LayerCache shape_layer(const ModelConfig& c, const CacheShape& shape, size_t l) {
  LayerCache cache;
  if (c.is_mla[l]) {
    cache.kv = View(nullptr, shape.kv_dtype, {shape.pages, shape.page_size, c.kv_width()});
  } else {
    cache.state = View(nullptr, DType::f32, {shape.slots, c.kda_heads, c.kda_head_dim, c.kda_head_dim});
    cache.conv = View(nullptr, DType::f32, {shape.slots, c.conv_taps - 1, 3 * c.kda_width()});
  }
  return cache;
}

}  // namespace

int64_t kv_bytes_per_token(const ModelConfig& config, DType kv_dtype) {
  return config.mla_layers() * config.kv_width() * dtype_bits(kv_dtype) / 8;
}

int64_t state_bytes_per_slot(const ModelConfig& config) {
  const int64_t recurrent = config.kda_heads * config.kda_head_dim * config.kda_head_dim;
  const int64_t history = (config.conv_taps - 1) * 3 * config.kda_width();
  return config.kda_layers() * (recurrent + history) * 4;
}

CacheMemory::CacheMemory(const Ops& ops, const ModelConfig& config, const CacheShape& shape) : shape_(shape) {
  PERIGEE_CHECK(shape.kv_dtype == DType::f32 || shape.kv_dtype == DType::bf16, "KV dtype {}",
                dtype_name(shape.kv_dtype));
  int64_t total = 0;
  for (size_t l = 0; l < static_cast<size_t>(config.layers); ++l) {
    layers_.push_back(shape_layer(config, shape, l));
    for (const View* view : {&layers_[l].kv, &layers_[l].state, &layers_[l].conv}) {
      if (view->rank != 0) total += aligned(bytes_of(*view));
    }
  }
  memory_ = Buffer(ops, total);
  int64_t used = 0;
  for (LayerCache& layer : layers_) {
    for (View* view : {&layer.kv, &layer.state, &layer.conv}) {
      if (view->rank == 0) continue;
      view->data = memory_.data() + used;
      used += aligned(bytes_of(*view));
    }
  }
}

}  // namespace perigee
