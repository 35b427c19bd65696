#include "model/tensor_list.h"

namespace perigee {
namespace {

/// Collects specs under one name prefix.
class List {
 public:
  explicit List(std::string prefix) : prefix_(std::move(prefix)) {}

  void matrix(std::string_view name, int64_t out, int64_t in, Part part) {
    add(name, {out, in}, DType::bf16, TensorRole::matrix, part);
  }
  void vector(std::string_view name, std::vector<int64_t> shape, DType dtype, Part part) {
    add(name, std::move(shape), dtype, TensorRole::vector, part);
  }
  void add(std::string_view name, std::vector<int64_t> shape, DType dtype, TensorRole role, Part part) {
    specs.push_back({prefix_ + std::string(name), std::move(shape), dtype, role, part});
  }

  std::vector<TensorSpec> specs;

 private:
  std::string prefix_;
};

std::string layer_prefix(const ModelConfig& c, int64_t layer) {
  return fmt::format("{}model.layers.{}.", c.tensor_prefix, layer);
}

void add_kda(const ModelConfig& c, List& list) {
  const int64_t H = c.hidden;
  const int64_t P = c.kda_width();
  const int64_t D = c.kda_head_dim;
  for (const char* name : {"q", "k", "v"}) list.matrix(fmt::format("self_attn.{}_proj.weight", name), P, H, Part::kda);
  if (c.full_rank_gate) {
    list.matrix("self_attn.g_proj.weight", P, H, Part::kda);
  } else {
    list.matrix("self_attn.g_a_proj.weight", D, H, Part::kda);
    list.matrix("self_attn.g_b_proj.weight", P, D, Part::kda);
  }
  list.matrix("self_attn.o_proj.weight", H, P, Part::kda);
  for (const char* name : {"q", "k", "v"}) {
    list.vector(fmt::format("self_attn.{}_conv1d.weight", name), {P, 1, c.conv_taps}, DType::f32, Part::kda);
  }
  list.matrix("self_attn.f_a_proj.weight", D, H, Part::kda);
  list.matrix("self_attn.f_b_proj.weight", P, D, Part::kda);
  list.matrix("self_attn.b_proj.weight", c.kda_heads, H, Part::kda);
  // K3 pads the per-head A_log to the head width; Kimi-Linear keeps [1, 1, heads, 1].
  if (c.residual_block != 0 && c.kda_heads <= D) {
    list.vector("self_attn.A_log", {D}, DType::f32, Part::kda);
  } else if (c.residual_block != 0) {
    list.vector("self_attn.A_log", {c.kda_heads}, DType::f32, Part::kda);
  } else {
    list.vector("self_attn.A_log", {1, 1, c.kda_heads, 1}, DType::f32, Part::kda);
  }
  list.vector("self_attn.dt_bias", {P}, DType::f32, Part::kda);
  list.vector("self_attn.o_norm.weight", {D}, DType::f32, Part::kda);
}

void add_mla(const ModelConfig& c, List& list) {
  const int64_t H = c.hidden;
  const int64_t query = c.heads * (c.qk_nope + c.qk_rope);
  if (c.q_lora_rank != 0) {
    list.matrix("self_attn.q_a_proj.weight", c.q_lora_rank, H, Part::mla);
    list.vector("self_attn.q_a_layernorm.weight", {c.q_lora_rank}, DType::bf16, Part::mla);
    list.matrix("self_attn.q_b_proj.weight", query, c.q_lora_rank, Part::mla);
  } else {
    list.matrix("self_attn.q_proj.weight", query, H, Part::mla);
  }
  list.matrix("self_attn.kv_a_proj_with_mqa.weight", c.kv_width(), H, Part::mla);
  list.vector("self_attn.kv_a_layernorm.weight", {c.kv_lora_rank}, DType::bf16, Part::mla);
  list.matrix("self_attn.kv_b_proj.weight", c.heads * (c.qk_nope + c.v_head_dim), c.kv_lora_rank, Part::mla);
  if (c.mla_gate) list.matrix("self_attn.g_proj.weight", c.heads * c.v_head_dim, H, Part::mla);
  list.matrix("self_attn.o_proj.weight", H, c.heads * c.v_head_dim, Part::mla);
}

void add_ffn(const ModelConfig& c, int64_t layer, List& list) {
  const int64_t H = c.hidden;
  if (c.is_dense(layer)) {
    list.matrix("mlp.gate_proj.weight", c.dense_width, H, Part::dense);
    list.matrix("mlp.up_proj.weight", c.dense_width, H, Part::dense);
    list.matrix("mlp.down_proj.weight", H, c.dense_width, Part::dense);
    return;
  }
  const std::string m = "block_sparse_moe.";
  list.matrix(m + "gate.weight", c.experts, H, Part::router);
  list.vector(m + "gate.e_score_correction_bias", {c.experts}, DType::f32, Part::router);
  if (c.latent != 0) {
    list.matrix(m + "routed_expert_down_proj.weight", c.latent, H, Part::latent);
    list.matrix(m + "routed_expert_up_proj.weight", H, c.latent, Part::latent);
    list.vector(m + "routed_expert_norm.weight", {c.latent}, DType::bf16, Part::latent);
  }
  list.matrix(m + "shared_experts.gate_proj.weight", c.shared_width(), H, Part::shared);
  list.matrix(m + "shared_experts.up_proj.weight", c.shared_width(), H, Part::shared);
  list.matrix(m + "shared_experts.down_proj.weight", H, c.shared_width(), Part::shared);
}

void count(const TensorSpec& spec, int64_t times, ModelTotals& totals) {
  for (PartTotals* t : {&totals.parts[static_cast<size_t>(spec.part)], &totals.all}) {
    t->tensors += times;
    t->parameters += spec.parameters() * times;
    t->bytes += spec.bytes() * times;
  }
}

}  // namespace

std::string_view part_name(Part part) {
  switch (part) {
    case Part::embedding:
      return "embedding";
    case Part::lm_head:
      return "lm_head";
    case Part::kda:
      return "KDA layers";
    case Part::mla:
      return "MLA layers";
    case Part::dense:
      return "dense MLP";
    case Part::router:
      return "router";
    case Part::latent:
      return "latent projections";
    case Part::shared:
      return "shared experts";
    case Part::experts:
      return "routed experts";
    case Part::norms:
      return "norms and residual vectors";
  }
  return "?";
}

int64_t TensorSpec::elements() const {
  int64_t count = 1;
  for (const int64_t dim : shape) count *= dim;
  return count;
}

int64_t TensorSpec::parameters() const {
  switch (role) {
    case TensorRole::packed:
      return 2 * elements();
    case TensorRole::scale:
      return 0;
    default:
      return elements();
  }
}

std::vector<TensorSpec> layer_trunk(const ModelConfig& c, int64_t layer) {
  List list(layer_prefix(c, layer));
  list.vector("input_layernorm.weight", {c.hidden}, DType::bf16, Part::norms);
  list.vector("post_attention_layernorm.weight", {c.hidden}, DType::bf16, Part::norms);
  if (c.residual_block != 0) {
    for (const char* site : {"self_attention_res", "mlp_res"}) {
      list.vector(fmt::format("{}_norm.weight", site), {c.hidden}, DType::bf16, Part::norms);
      list.vector(fmt::format("{}_proj.weight", site), {1, c.hidden}, DType::bf16, Part::norms);
    }
  }
  if (c.is_mla[static_cast<size_t>(layer)]) {
    add_mla(c, list);
  } else {
    add_kda(c, list);
  }
  add_ffn(c, layer, list);
  return std::move(list.specs);
}

std::vector<TensorSpec> expert_tensors(const ModelConfig& c, int64_t layer, int64_t expert) {
  List list(fmt::format("{}block_sparse_moe.experts.{}.", layer_prefix(c, layer), expert));
  const int64_t X = c.expert_input();
  const int64_t F = c.expert_width;
  for (const auto& [name, out, in] : {std::tuple{"w1", F, X}, {"w2", X, F}, {"w3", F, X}}) {
    if (c.mxfp4_experts) {
      list.add(fmt::format("{}.weight_packed", name), {out, in / 2}, DType::u8, TensorRole::packed, Part::experts);
      list.add(fmt::format("{}.weight_scale", name), {out, in / kMxGroup}, DType::u8, TensorRole::scale, Part::experts);
    } else {
      list.matrix(fmt::format("{}.weight", name), out, in, Part::experts);
    }
  }
  return std::move(list.specs);
}

std::vector<TensorSpec> top_tensors(const ModelConfig& c) {
  List list(c.tensor_prefix);
  list.matrix("model.embed_tokens.weight", c.vocab, c.hidden, Part::embedding);
  list.vector("model.norm.weight", {c.hidden}, DType::bf16, Part::norms);
  if (c.residual_block != 0) {
    list.vector("model.output_attn_res_norm.weight", {c.hidden}, DType::bf16, Part::norms);
    list.vector("model.output_attn_res_proj.weight", {1, c.hidden}, DType::bf16, Part::norms);
  }
  list.matrix("lm_head.weight", c.vocab, c.hidden, Part::lm_head);
  return std::move(list.specs);
}

std::vector<TensorSpec> list_text_tensors(const ModelConfig& config) {
  std::vector<TensorSpec> all;
  for_each_tensor(config, [&](const TensorSpec& spec) { all.push_back(spec); });
  return all;
}

ModelTotals count_tensors(const ModelConfig& config) {
  ModelTotals totals;
  for (int64_t l = 0; l < config.layers; ++l) {
    for (const TensorSpec& spec : layer_trunk(config, l)) count(spec, 1, totals);
    if (config.is_dense(l)) continue;
    for (const TensorSpec& spec : expert_tensors(config, l, 0)) count(spec, config.experts, totals);
  }
  for (const TensorSpec& spec : top_tensors(config)) count(spec, 1, totals);
  return totals;
}

}  // namespace perigee
