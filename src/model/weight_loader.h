// load_weights: from a Checkpoint to Weights. Checks every name, shape and dtype first, then reads each byte once,
// straight to its place, with several threads.
#pragma once

#include "model/checkpoint.h"
#include "model/config.h"
#include "model/weights.h"

namespace perigee {

struct LoadOptions {
  int threads = 4;     ///< readers
  bool quiet = false;  ///< no progress bar
};

struct LoadReport {
  int64_t tensors = 0;
  int64_t bytes = 0;
  double seconds = 0;
};

/// Names of missing, misshapen or wrongly typed tensors, one sentence each, at most `limit`; empty when all is well.
std::vector<std::string> check_weights(const Checkpoint& checkpoint, const ModelConfig& config, size_t limit = 10);

/// Throws std::runtime_error with a full sentence: what check_weights found, a scale byte that is NaN, a read error, or
/// no memory. The result lives in `ops`' memory and is independent of the checkpoint.
Weights load_weights(const Checkpoint& checkpoint, const ModelConfig& config, const Ops& ops,
                     const LoadOptions& options = {}, LoadReport* report = nullptr);

/// Weights whose views have the right shapes and no memory: for sizing an Arena by Model::arena_bytes.
Weights weights_without_memory(const ModelConfig& config);

/// Bytes of the Buffer load_weights would make (from config alone, matrices as released).
int64_t weight_bytes(const ModelConfig& config);

}  // namespace perigee
