// Pass: what every function of one forward pass needs. Private to model/.
#pragma once

#include <initializer_list>

#include "model/k3.h"

namespace perigee {

struct Pass {
  const ModelConfig& config;
  const StepInput& input;
  Arena& arena;
  const Ops& ops;
  OpContext& context;
  DType activation;

  int64_t rows() const { return input.tokens.rows(); }
  /// An activation of this step: [rows, width].
  View make(int64_t width) const { return arena.make(activation, {rows(), width}); }

  void matmul(View x, const Linear& w, View out) const { ops.matmul(context, x, w, out); }
};

/// out = KDA(h); h [T, H] already normed.
void kda_layer(const Pass& pass, const KdaWeights& w, const LayerCache& cache, View h, View out);
/// out = MLA(h); h [T, H] already normed.
void mla_layer(const Pass& pass, const MlaWeights& w, const LayerCache& cache, View h, View out);
/// out = MLP(h).
void dense_ffn(const Pass& pass, const MlpWeights& w, View h, View out);
/// out = routed experts(h) + shared experts(h).
void moe_ffn(const Pass& pass, const MoeWeights& w, View h, View out);

}  // namespace perigee
