// Kimi Delta Attention: projections, short convolution, delta rule with a per-channel decay, gated norm, output.

#include "model/pass.h"

namespace perigee {

void kda_layer(const Pass& pass, const KdaWeights& w, const LayerCache& cache, View h, View out) {
  const ModelConfig& c = pass.config;
  const int64_t P = c.kda_width();
  const int64_t D = c.kda_head_dim;
  const Arena::Scope scope(pass.arena);

  const View in = pass.make(w.in.out());
  pass.matmul(h, w.in, in);
  const View qkv_raw = in.cols(0, 3 * P);
  const int64_t gate_width = c.full_rank_gate ? P : D;
  const View f_a = in.cols(3 * P + gate_width, D);
  const View beta = in.cols(3 * P + gate_width + D, c.kda_heads);

  View gate = in.cols(3 * P, gate_width);
  if (!c.full_rank_gate) {
    const View g_a = gate;
    gate = pass.make(P);
    pass.matmul(g_a, w.g_b, gate);
  }
  const View z = pass.make(P);
  pass.matmul(f_a, w.f_b, z);

  const View qkv = pass.make(3 * P);
  pass.ops.short_conv(
      pass.context, {.x = qkv_raw, .weight = w.conv, .state = cache.conv, .segments = pass.input.segments, .out = qkv});
  const View o = pass.make(P);
  pass.ops.kda(pass.context, {.qkv = qkv,
                              .z = z,
                              .beta = beta,
                              .a_log = w.a_log,
                              .dt_bias = w.dt_bias,
                              .gate_lower_bound = c.gate_lower_bound,
                              .state = cache.state,
                              .segments = pass.input.segments,
                              .out = o});
  // Norm first, then the gate: the opposite of MLA, which has no norm.
  pass.ops.gated_head_norm(pass.context, o, w.o_norm, c.rms_eps, gate, o);
  pass.matmul(o, w.out, out);
}

}  // namespace perigee
