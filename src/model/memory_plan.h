// MemoryPlan: what a model needs in bytes, and how many requests fit. Shared by `perigee inspect` and the server's
// start table.
#pragma once

#include <cstdint>
#include <string>

#include "model/cache_memory.h"
#include "model/config.h"

namespace perigee {

struct MemoryPlan {
  int64_t weights = 0;
  int64_t state_per_request = 0;  ///< one slot
  int64_t kv_per_token = 0;
  int64_t context = 0;  ///< tokens per request assumed
  int64_t memory = 0;   ///< budget for everything; 0 = not asked

  int64_t per_request() const { return state_per_request + context * kv_per_token; }
  /// Requests of `context` tokens that fit beside the weights; 0 when none does.
  int64_t requests() const { return memory > weights ? (memory - weights) / per_request() : 0; }
};

MemoryPlan plan_memory(const ModelConfig& config, DType kv_dtype, int64_t context, int64_t memory);

/// "1.56 TB", "449.37 MB": decimal units, two digits.
std::string human_bytes(int64_t bytes);

/// "24GB", "512MiB", "1000000": decimal (kB, MB, GB, TB) or binary (KiB, MiB, GiB, TiB) units.
Result<int64_t> parse_bytes(const std::string& text);

}  // namespace perigee
