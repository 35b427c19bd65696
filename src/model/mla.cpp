// Multi-head latent attention without positional encoding, with an output gate.

#include <cmath>

#include "model/pass.h"

namespace perigee {

void mla_layer(const Pass& pass, const MlaWeights& w, const LayerCache& cache, View h, View out) {
  const ModelConfig& c = pass.config;
  const int64_t head_width = c.qk_nope + c.qk_rope;
  const int64_t query_width = c.q_lora_rank != 0 ? c.q_lora_rank : c.heads * head_width;
  const int64_t value_width = c.heads * c.v_head_dim;
  const Arena::Scope scope(pass.arena);

  const View in = pass.make(w.in.out());
  pass.matmul(h, w.in, in);
  View q = in.cols(0, query_width);
  const View kv = in.cols(query_width, c.kv_width());

  if (c.q_lora_rank != 0) {
    const View q_a = q;
    pass.ops.rms_norm(pass.context, q_a, w.q_norm, c.lora_norm_eps, q_a);
    q = pass.make(c.heads * head_width);
    pass.matmul(q_a, w.q_b, q);
  }
  pass.ops.mla_append(pass.context, {.x = kv,
                                     .norm = w.kv_norm,
                                     .eps = c.lora_norm_eps,
                                     .cache = cache.kv,
                                     .segments = pass.input.segments,
                                     .pages = pass.input.pages});
  const View o = pass.make(value_width);
  pass.ops.mla(pass.context, {.q = q,
                              .kv_b = w.kv_b,
                              .cache = cache.kv,
                              .heads = static_cast<int32_t>(c.heads),
                              .nope = static_cast<int32_t>(c.qk_nope),
                              .rope = static_cast<int32_t>(c.qk_rope),
                              .v = static_cast<int32_t>(c.v_head_dim),
                              // The un-rotated rope dimensions are part of the head width.
                              .scale = static_cast<float>(1.0 / std::sqrt(static_cast<double>(head_width))),
                              .segments = pass.input.segments,
                              .pages = pass.input.pages,
                              .out = o});
  if (c.mla_gate) {
    pass.ops.sigmoid_gate(pass.context, o, in.cols(query_width + c.kv_width(), value_width), o);
  }
  pass.matmul(o, w.out, out);
}

}  // namespace perigee
