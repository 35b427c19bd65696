// ModelConfig: what config.json says about the text model, checked and in the model's own terms.
//
// Read by parse_config (config.cpp) from Kimi K3 (nested text_config) or Kimi-Linear (flat). Nothing is guessed: a key
// the computation needs and that is missing is an error that names it. Immutable after load.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "tensor/ops.h"

namespace perigee {

struct ModelConfig {
  std::string architecture;   ///< KimiK3ForConditionalGeneration or KimiLinearForCausalLM
  std::string tensor_prefix;  ///< "language_model." for K3, "" for Kimi-Linear

  int64_t hidden = 0;
  int64_t layers = 0;
  int64_t vocab = 0;
  int64_t max_positions = 0;
  float rms_eps = 1e-5F;
  float lora_norm_eps = 1e-6F;  ///< q_a and kv_a norms: the reference passes no eps, so its class default holds
  std::vector<bool> is_mla;     ///< per layer, 0-based (the file's lists are 1-based); otherwise KDA

  // Kimi Delta Attention
  int64_t kda_heads = 0;
  int64_t kda_head_dim = 0;
  int64_t conv_taps = 0;
  bool full_rank_gate = false;            ///< g_proj; otherwise the g_a, g_b pair
  std::optional<float> gate_lower_bound;  ///< selects the sigmoid form of the decay

  // Multi-head latent attention
  int64_t heads = 0;
  int64_t q_lora_rank = 0;  ///< 0: plain q_proj
  int64_t kv_lora_rank = 0;
  int64_t qk_nope = 0;
  int64_t qk_rope = 0;  ///< part of the head width, never rotated
  int64_t v_head_dim = 0;
  bool mla_gate = false;

  int64_t residual_block = 0;  ///< attn_res_block_size; 0: ordinary residual stream

  // Feed-forward
  Activation activation;
  int64_t dense_layers = 0;  ///< first_k_dense_replace
  int64_t dense_width = 0;
  int64_t experts = 0;
  int64_t experts_per_token = 0;
  int64_t expert_width = 0;
  int64_t shared_experts = 0;
  int64_t latent = 0;  ///< routed_expert_hidden_size; 0: experts work at hidden width
  float routed_scale = 1;
  bool mxfp4_experts = false;

  // Tokens
  std::vector<int32_t> eos_ids;
  std::optional<int32_t> bos_id;
  std::optional<int32_t> pad_id;

  int64_t kda_width() const { return kda_heads * kda_head_dim; }
  int64_t kv_width() const { return kv_lora_rank + qk_rope; }
  int64_t shared_width() const { return shared_experts * expert_width; }
  int64_t expert_input() const { return latent != 0 ? latent : hidden; }
  bool is_dense(int64_t layer) const { return layer < dense_layers; }
  int64_t mla_layers() const;
  int64_t kda_layers() const { return layers - mla_layers(); }
  /// Rows the bank of attention residuals holds after the last layer.
  int64_t residual_rows() const { return residual_block == 0 ? 0 : (layers + residual_block - 1) / residual_block; }
};

/// Reads the text of config.json. Errors name the key, its value and what was expected.
Result<ModelConfig> parse_config(std::string_view config_json);

/// The same for `folder`/config.json; eos ids are joined with those of generation_config.json when that file exists.
Result<ModelConfig> load_config(const std::string& folder);

}  // namespace perigee
