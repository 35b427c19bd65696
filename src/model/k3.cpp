#include "model/k3.h"

#include "model/pass.h"
#include "model/residual_stream.h"

namespace perigee {
namespace {

void attention(const Pass& pass, const LayerWeights& w, const LayerCache& cache, View h, View out) {
  if (const auto* kda = std::get_if<KdaWeights>(&w.attention)) {
    kda_layer(pass, *kda, cache, h, out);
  } else {
    mla_layer(pass, std::get<MlaWeights>(w.attention), cache, h, out);
  }
}

void feed_forward(const Pass& pass, const LayerWeights& w, View h, View out) {
  if (const auto* mlp = std::get_if<MlpWeights>(&w.ffn)) {
    dense_ffn(pass, *mlp, h, out);
  } else {
    moe_ffn(pass, std::get<MoeWeights>(w.ffn), h, out);
  }
}

/// embed -> layers -> last mix -> norm -> lm_head.
View run(const Pass& pass, const Weights& weights, std::span<const LayerCache> caches, ForwardTap* tap) {
  const ModelConfig& c = pass.config;
  ResidualStream stream(pass);
  pass.ops.embed(pass.context, pass.input.tokens, weights.embed, stream.x());
  const View h = pass.make(c.hidden);

  for (int64_t l = 0; l < c.layers; ++l) {
    const LayerWeights& w = weights.layers[static_cast<size_t>(l)];
    const View attention_input = stream.mix(w.attn_residual);
    pass.ops.rms_norm(pass.context, attention_input, w.attn_norm, c.rms_eps, h);
    if (c.residual_block != 0 && l % c.residual_block == 0) stream.begin_block();
    attention(pass, w, caches[static_cast<size_t>(l)], h, stream.output());
    stream.accumulate(stream.output());

    const View ffn_input = stream.mix(w.ffn_residual);
    pass.ops.rms_norm(pass.context, ffn_input, w.ffn_norm, c.rms_eps, h);
    feed_forward(pass, w, h, stream.output());
    stream.accumulate(stream.output());
    if (tap != nullptr) tap->after_layer(l, stream.x());
  }

  if (pass.input.logit_rows.rows() == 0) return {};
  ResidualStream wanted = stream.gathered(pass.input.logit_rows);
  const View last = wanted.mix(weights.output_residual);
  pass.ops.rms_norm(pass.context, last, weights.norm, c.rms_eps, last);
  const View logits = pass.arena.make(DType::f32, {pass.input.logit_rows.rows(), c.vocab});
  pass.matmul(last, weights.lm_head, logits);
  return logits;
}

}  // namespace

View Model::forward(const StepInput& input, std::span<const LayerCache> caches, Arena& arena, Device& device,
                    ForwardTap* tap) const {
  PERIGEE_CHECK(caches.size() == static_cast<size_t>(config_.layers), "{} layer caches for {} layers", caches.size(),
                config_.layers);
  const Pass pass{config_, input, arena, *device.ops, device.context, device.ops->activation};
  return run(pass, weights_, caches, tap);
}

int64_t Model::arena_bytes(int64_t rows, int64_t logit_rows, DType activation) const {
  Arena counter;
  StepInput input;
  input.tokens = counter.make(DType::i32, {rows});
  input.logit_rows = counter.make(DType::i32, {logit_rows});
  const std::vector<LayerCache> caches(static_cast<size_t>(config_.layers));
  OpContext context;
  run(Pass{config_, input, counter, null_ops(), context, activation}, weights_, caches, nullptr);
  return counter.high_water();
}

}  // namespace perigee
