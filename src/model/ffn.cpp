// The feed-forward half of a layer: a dense GLU, or a (latent) mixture of experts beside shared experts.

#include "model/pass.h"

namespace perigee {
namespace {

/// act(gate) * up in place of the gate; returns that [T, F] view. `gate_up` [T, 2F].
View glu_in_place(const Pass& pass, View gate_up) {
  const int64_t F = gate_up.cols() / 2;
  const View gate = gate_up.cols(0, F);
  pass.ops.glu(pass.context, gate, gate_up.cols(F, F), pass.config.activation, gate);
  return gate;
}

/// The weighted sum of the chosen experts on x [T, X].
void routed_experts(const Pass& pass, const MoeWeights& w, View h, View x, View out) {
  const ModelConfig& c = pass.config;
  const int64_t T = pass.rows();
  const int64_t K = c.experts_per_token;
  const Arena::Scope scope(pass.arena);

  const View ids = pass.arena.make(DType::i32, {T, K});
  const View weights = pass.arena.make(DType::f32, {T, K});
  // The router sees the full-width input, whatever the experts work on.
  pass.ops.router(pass.context, {.x = h,
                                 .gate = w.router,
                                 .bias = w.router_bias,
                                 .scale = c.routed_scale,
                                 .ids = ids,
                                 .weights = weights,
                                 .logits = pass.arena.make(DType::f32, {T, c.experts})});
  pass.ops.moe(pass.context, {.x = x,
                              .ids = ids,
                              .weights = weights,
                              .experts = w.experts,
                              .expert_begin = 0,
                              .activation = c.activation,
                              .hidden = pass.arena.make(DType::f32, {T * K, 2 * c.expert_width}),
                              .partial = pass.arena.make(DType::f32, {T * K, c.expert_input()}),
                              .out = out});
}

}  // namespace

void dense_ffn(const Pass& pass, const MlpWeights& w, View h, View out) {
  const Arena::Scope scope(pass.arena);
  const View gate_up = pass.make(w.gate_up.out());
  pass.matmul(h, w.gate_up, gate_up);
  pass.matmul(glu_in_place(pass, gate_up), w.down, out);
}

void moe_ffn(const Pass& pass, const MoeWeights& w, View h, View out) {
  const ModelConfig& c = pass.config;
  const int64_t S = c.shared_width();
  const Arena::Scope scope(pass.arena);

  const View in = pass.make(w.in.out());
  pass.matmul(h, w.in, in);
  const View shared = glu_in_place(pass, in.cols(c.latent, 2 * S));
  pass.matmul(shared, w.shared_down, out);

  const View sum = pass.arena.make(DType::f32, {pass.rows(), c.expert_input()});
  routed_experts(pass, w, h, c.latent != 0 ? in.cols(0, c.latent) : h, sum);
  View routed = sum;
  if (c.latent != 0) {
    // The norm belongs to the summed experts, so partial sums of a split must be reduced before it.
    pass.ops.rms_norm(pass.context, sum, w.latent_norm, c.rms_eps, sum);
    routed = pass.make(c.hidden);
    pass.matmul(sum, w.latent_up, routed);
  }
  pass.ops.add(pass.context, out, routed, out);
}

}  // namespace perigee
