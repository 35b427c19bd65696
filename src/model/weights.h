// Weights: plain structs of named views, shape in the comment at every field. Filled by load_weights (weight_loader.h),
// immutable afterwards, shared by const reference.
//
// Matrices that read the same vector lie one after another in memory, so that one matmul serves them all: `in` of a
// layer is a view over several checkpoint tensors, named left to right. Small vectors are widened to F32 at load.
// Letters as in tensor/ops.h; R kv_lora_rank, Q q_lora_rank, S shared width, F expert width, X expert input width.
#pragma once

#include <variant>
#include <vector>

#include "tensor/buffer.h"
#include "tensor/ops.h"
#include "tensor/view.h"

namespace perigee {

struct KdaWeights {
  Linear in;     ///< [4P + D + N, H] q, k, v, g, f_a, b;  low-rank gate: [3P + 2D + N, H] q, k, v, g_a, f_a, b
  Linear f_b;    ///< [P, D]
  Linear g_b;    ///< [P, D] low-rank gate only
  View conv;     ///< [3P, taps] F32: q, k, v
  View a_log;    ///< [N] F32 (K3 pads it to D on disk; the first N count)
  View dt_bias;  ///< [P] F32
  View o_norm;   ///< [D] F32
  Linear out;    ///< [H, P]
};

struct MlaWeights {
  Linear in;     ///< [Q + R + rope + N v, H] q_a, kv_a, g;  without q_lora: q instead of q_a;  without gate: no g
  View q_norm;   ///< [Q] F32; empty without q_lora
  Linear q_b;    ///< [N (nope + rope), Q]; empty without q_lora
  View kv_norm;  ///< [R] F32
  Linear kv_b;   ///< [N (nope + v), R]
  Linear out;    ///< [H, N v]
};

struct MlpWeights {
  Linear gate_up;  ///< [2F, H] gate, up
  Linear down;     ///< [H, F]
};

struct MoeWeights {
  Linear router;       ///< [E, H]
  View router_bias;    ///< [E] F32
  Linear in;           ///< [X + 2S, H] routed_expert_down, shared gate, shared up;  without latent: [2S, H]
  Experts experts;     ///< E experts of width F on X
  View latent_norm;    ///< [X] F32; empty without latent
  Linear latent_up;    ///< [H, X]; empty without latent
  Linear shared_down;  ///< [H, S]
};

struct LayerWeights {
  View attn_norm;      ///< [H] F32 input_layernorm
  View ffn_norm;       ///< [H] F32 post_attention_layernorm
  View attn_residual;  ///< [H] F32 self_attention_res norm times proj; empty without attention residuals
  View ffn_residual;   ///< [H] F32 mlp_res norm times proj
  std::variant<KdaWeights, MlaWeights> attention;
  std::variant<MlpWeights, MoeWeights> ffn;
};

struct Weights {
  View embed;  ///< [V, H]
  std::vector<LayerWeights> layers;
  View output_residual;  ///< [H] F32 output_attn_res norm times proj; empty without attention residuals
  View norm;             ///< [H] F32
  Linear lm_head;        ///< [V, H]

  Buffer memory;  ///< what every view above points into
};

}  // namespace perigee
