// Model: the forward pass of the Kimi K3 family, one function per mechanism, reading like the paper.
//
// Const after construction; called by one Worker at a time with that worker's Device, caches and Arena. k3.cpp holds
// the layer loop; kda.cpp, mla.cpp, ffn.cpp and residual.h the mechanisms.
#pragma once

#include <span>
#include <vector>

#include "model/config.h"
#include "model/weights.h"
#include "tensor/arena.h"
#include "tensor/device.h"

namespace perigee {

/// The persistent memory one layer reads and writes; exactly one kind is set.
struct LayerCache {
  View kv;     ///< MLA: [pages, page size, R + rope] F32 or BF16
  View state;  ///< KDA: [slots, N, D, D] F32
  View conv;   ///< KDA: [slots, taps - 1, 3P] F32
};

/// One step for the model: flat rows of all sequences. Device arrays unless noted.
struct StepInput {
  View tokens;                        ///< [T] I32
  View logit_rows;                    ///< [R] I32: rows whose logits are wanted, ascending
  std::span<const Segment> segments;  ///< host
  std::span<const int32_t> pages;     ///< host: flat page table
};

/// What a caller may take from the pass besides the logits (draft models, parity tests). Called between operations.
class ForwardTap {
 public:
  virtual ~ForwardTap() = default;
  /// The stream [T, H] after layer `layer` (attention residuals: the running block sum).
  virtual void after_layer(int64_t layer, View stream) = 0;
};

class Model {
 public:
  Model(ModelConfig config, Weights weights) : config_(std::move(config)), weights_(std::move(weights)) {}

  const ModelConfig& config() const { return config_; }
  const Weights& weights() const { return weights_; }

  /// Logits [R, V] F32 in `arena`; updates the caches of the segments' slots and pages.
  View forward(const StepInput& input, std::span<const LayerCache> caches, Arena& arena, Device& device,
               ForwardTap* tap = nullptr) const;

  /// Bytes of arena a step of at most `rows` rows and `logit_rows` logits needs (a dry run).
  int64_t arena_bytes(int64_t rows, int64_t logit_rows, DType activation) const;

 private:
  ModelConfig config_;
  Weights weights_;
};

}  // namespace perigee
