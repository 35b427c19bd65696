// CacheMemory: the bytes behind the page and slot ids on one device. Owned by a Worker; ids come from cache/'s pools.
#pragma once

#include <vector>

#include "model/k3.h"

namespace perigee {

/// How caches are stored and counted.
struct CacheShape {
  DType kv_dtype = DType::bf16;  ///< F32 or BF16
  int64_t page_size = 64;        ///< tokens per page
  int64_t pages = 0;
  int64_t slots = 0;
};

/// Bytes of one KV token over all MLA layers.
int64_t kv_bytes_per_token(const ModelConfig& config, DType kv_dtype);
/// Bytes of one state slot (recurrent state and convolution history) over all KDA layers.
int64_t state_bytes_per_slot(const ModelConfig& config);

class CacheMemory {
 public:
  CacheMemory(const Ops& ops, const ModelConfig& config, const CacheShape& shape);
  std::span<const LayerCache> layers() const { return layers_; }
  const CacheShape& shape() const { return shape_; }
  int64_t bytes() const { return memory_.bytes(); }

 private:
  CacheShape shape_;
  Buffer memory_;
  std::vector<LayerCache> layers_;
};

}  // namespace perigee
