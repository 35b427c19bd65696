#include "model/weight_layout.h"

#include <algorithm>

namespace perigee {
namespace {

constexpr int64_t kAlign = 64;

}  // namespace

WeightLayout::WeightLayout(const ModelConfig& config, const Checkpoint* checkpoint, std::byte* base)
    // Without memory, count from one page up: no view looks empty and no arithmetic touches null.
    : config_(config),
      checkpoint_(checkpoint),
      base_(base != nullptr ? base : reinterpret_cast<std::byte*>(uintptr_t{4096})) {
  current_ = top_tensors(config);
  const std::string& p = config.tensor_prefix;
  weights.embed = stack({p + "model.embed_tokens.weight"}).weight;
  weights.norm = vectors({p + "model.norm.weight"});
  if (config.residual_block != 0) {
    weights.output_residual = folded(p + "model.output_attn_res_norm.weight", p + "model.output_attn_res_proj.weight");
  }
  weights.lm_head = stack({p + "lm_head.weight"});
  for (int64_t l = 0; l < config.layers; ++l) place_layer(l);
}

void WeightLayout::place_layer(int64_t layer) {
  current_ = layer_trunk(config_, layer);
  const std::string p = fmt::format("{}model.layers.{}.", config_.tensor_prefix, layer);
  LayerWeights w;
  w.attn_norm = vectors({p + "input_layernorm.weight"});
  w.ffn_norm = vectors({p + "post_attention_layernorm.weight"});
  if (config_.residual_block != 0) {
    w.attn_residual = folded(p + "self_attention_res_norm.weight", p + "self_attention_res_proj.weight");
    w.ffn_residual = folded(p + "mlp_res_norm.weight", p + "mlp_res_proj.weight");
  }
  if (config_.is_mla[static_cast<size_t>(layer)]) {
    w.attention = place_mla(p + "self_attn.");
  } else {
    w.attention = place_kda(p + "self_attn.");
  }
  if (config_.is_dense(layer)) {
    w.ffn = place_dense(p + "mlp.");
  } else {
    w.ffn = place_moe(layer, p + "block_sparse_moe.");
  }
  weights.layers.push_back(std::move(w));
}

KdaWeights WeightLayout::place_kda(const std::string& p) {
  KdaWeights w;
  const std::string gate = config_.full_rank_gate ? "g_proj.weight" : "g_a_proj.weight";
  w.in = stack({p + "q_proj.weight", p + "k_proj.weight", p + "v_proj.weight", p + gate, p + "f_a_proj.weight",
                p + "b_proj.weight"});
  w.f_b = stack({p + "f_b_proj.weight"});
  if (!config_.full_rank_gate) w.g_b = stack({p + "g_b_proj.weight"});
  const View conv = vectors({p + "q_conv1d.weight", p + "k_conv1d.weight", p + "v_conv1d.weight"});
  w.conv = View(conv.data, DType::f32, {3 * config_.kda_width(), config_.conv_taps});
  w.a_log = vectors({p + "A_log"}, config_.kda_heads);
  w.dt_bias = vectors({p + "dt_bias"});
  w.o_norm = vectors({p + "o_norm.weight"});
  w.out = stack({p + "o_proj.weight"});
  return w;
}

MlaWeights WeightLayout::place_mla(const std::string& p) {
  MlaWeights w;
  const bool lora = config_.q_lora_rank != 0;
  std::vector<std::string> in = {p + (lora ? "q_a_proj.weight" : "q_proj.weight"), p + "kv_a_proj_with_mqa.weight"};
  if (config_.mla_gate) in.push_back(p + "g_proj.weight");
  w.in = stack(in);
  if (lora) {
    w.q_norm = vectors({p + "q_a_layernorm.weight"});
    w.q_b = stack({p + "q_b_proj.weight"});
  }
  w.kv_norm = vectors({p + "kv_a_layernorm.weight"});
  w.kv_b = stack({p + "kv_b_proj.weight"});
  w.out = stack({p + "o_proj.weight"});
  return w;
}

MlpWeights WeightLayout::place_dense(const std::string& p) {
  MlpWeights w;
  w.gate_up = stack({p + "gate_proj.weight", p + "up_proj.weight"});
  w.down = stack({p + "down_proj.weight"});
  return w;
}

MoeWeights WeightLayout::place_moe(int64_t layer, const std::string& p) {
  MoeWeights w;
  w.router = stack({p + "gate.weight"});
  w.router_bias = vectors({p + "gate.e_score_correction_bias"});
  std::vector<std::string> in;
  if (config_.latent != 0) in.push_back(p + "routed_expert_down_proj.weight");
  in.push_back(p + "shared_experts.gate_proj.weight");
  in.push_back(p + "shared_experts.up_proj.weight");
  w.in = stack(in);
  if (config_.latent != 0) {
    w.latent_norm = vectors({p + "routed_expert_norm.weight"});
    w.latent_up = stack({p + "routed_expert_up_proj.weight"});
  }
  w.shared_down = stack({p + "shared_experts.down_proj.weight"});
  w.experts = place_experts(layer);
  return w;
}

Experts WeightLayout::place_experts(int64_t layer) {
  const int64_t E = config_.experts;
  const int64_t F = config_.expert_width;
  const int64_t X = config_.expert_input();
  Experts experts;
  const std::vector<TensorSpec> first = expert_tensors(config_, layer, 0);
  const DType dtype = config_.mxfp4_experts ? DType::mxfp4 : stored_matrix_dtype(first[0].name);
  const auto bytes = [&](int64_t elements) { return elements * dtype_bits(dtype) / 8; };
  experts.gate_up = View(take(bytes(E * 2 * F * X)), dtype, {E, 2 * F, X});
  experts.down = View(take(bytes(E * X * F)), dtype, {E, X, F});
  if (config_.mxfp4_experts) {
    experts.gate_up_scale = View(take(E * 2 * F * X / kMxGroup), DType::u8, {E, 2 * F, X / kMxGroup});
    experts.down_scale = View(take(E * X * F / kMxGroup), DType::u8, {E, X, F / kMxGroup});
  }
  for (int64_t e = 0; e < E; ++e) {
    // In the order w1 (gate), w2 (down), w3 (up); each packed, scale.
    const std::vector<TensorSpec> specs = expert_tensors(config_, layer, e);
    const size_t step = specs.size() / 3;
    const View targets[3] = {experts.gate_up.at(e).rows(0, F), experts.down.at(e), experts.gate_up.at(e).rows(F, F)};
    for (size_t w = 0; w < 3; ++w) {
      reads.push_back({specs[w * step], targets[w].data, specs[w * step].elements(), {}});
    }
    if (!config_.mxfp4_experts) continue;
    const View scales[3] = {experts.gate_up_scale.at(e).rows(0, F), experts.down_scale.at(e),
                            experts.gate_up_scale.at(e).rows(F, F)};
    for (size_t w = 0; w < 3; ++w) {
      reads.push_back({specs[w * step + 1], scales[w].data, specs[w * step + 1].elements(), {}});
    }
  }
  return experts;
}

std::byte* WeightLayout::take(int64_t bytes) {
  std::byte* place = base_ + used_;
  used_ += (bytes + kAlign - 1) / kAlign * kAlign;
  return place;
}

const TensorSpec& WeightLayout::spec(const std::string& name) const {
  const auto found = std::find_if(current_.begin(), current_.end(), [&](const auto& s) { return s.name == name; });
  PERIGEE_CHECK(found != current_.end(), "{} is not in the tensor list", name);
  return *found;
}

DType WeightLayout::stored_matrix_dtype(const std::string& name) const {
  if (checkpoint_ == nullptr) return DType::bf16;
  const StoredTensor* stored = checkpoint_->find(name).tensor;
  return stored != nullptr && stored->dtype == "F32" ? DType::f32 : DType::bf16;
}

Linear WeightLayout::stack(const std::vector<std::string>& names) {
  const int64_t in = spec(names[0]).shape[1];
  const DType dtype = stored_matrix_dtype(names[0]);
  int64_t out = 0;
  for (const auto& name : names) out += spec(name).shape[0];
  std::byte* place = take(out * in * dtype_bits(dtype) / 8);
  const Linear linear{View(place, dtype, {out, in}), {}};
  for (const auto& name : names) {
    TensorSpec expected = spec(name);
    expected.dtype = dtype;  // one dtype for the whole group
    reads.push_back({expected, place, expected.elements(), {}});
    place += expected.bytes();
  }
  return linear;
}

View WeightLayout::vectors(const std::vector<std::string>& names, int64_t keep) {
  int64_t total = 0;
  for (const auto& name : names) total += keep != 0 ? keep : spec(name).elements();
  std::byte* place = take(total * 4);
  const View view(place, DType::f32, {total});
  for (const auto& name : names) {
    const int64_t elements = keep != 0 ? keep : spec(name).elements();
    reads.push_back({spec(name), place, elements, {}});
    place += elements * 4;
  }
  return view;
}

View WeightLayout::folded(const std::string& norm, const std::string& projection) {
  std::byte* place = take(config_.hidden * 4);
  reads.push_back({spec(norm), place, config_.hidden, projection});
  return View(place, DType::f32, {config_.hidden});
}

}  // namespace perigee
