// Presets and overrides of synthetic checkpoints.

#include <algorithm>
#include <array>

#include "model/synth.h"

namespace perigee {
namespace {

/// The dimensions in which the presets differ.
struct Dims {
  std::string_view name;
  int64_t hidden, layers, heads, q_lora, kv_lora, experts, top_k, latent, expert_width, shared, dense_width, vocab,
      residual_block, max_positions;
  double routed_scale;
};

constexpr std::array kDims = {
    Dims{"tiny", 256, 8, 2, 128, 64, 16, 4, 128, 128, 2, 512, 1280, 4, 32768, 1.0},
    Dims{"small", 1024, 8, 8, 512, 256, 64, 8, 512, 512, 2, 4096, 32768, 4, 8192, 2.5},
    Dims{"bench", 2048, 12, 16, 768, 512, 128, 8, 1024, 1024, 2, 8192, 32768, 4, 8192, 2.5},
    Dims{"kimi-linear-tiny", 256, 8, 2, 0, 64, 16, 4, 0, 128, 1, 512, 1280, 0, 32768, 2.446},
    Dims{"k3", 7168, 93, 96, 1536, 512, 896, 16, 3584, 3072, 2, 33792, 163840, 12, 1048576, 1.0},
};
constexpr std::array<std::string_view, kDims.size()> kNames = {"tiny", "small", "bench", "kimi-linear-tiny", "k3"};

/// Every fourth layer is MLA, and so is the last (1-based lists, as in the released files).
void set_layer_lists(json::object& text) {
  const json::value* count = text.if_contains("num_hidden_layers");
  const int64_t layers = count != nullptr && count->is_int64() ? std::clamp<int64_t>(count->get_int64(), 0, 4096) : 0;
  json::array mla;
  json::array kda;
  for (int64_t l = 1; l <= layers; ++l) (l % 4 == 0 || l == layers ? mla : kda).push_back(l);
  json::object& linear = text["linear_attn_config"].as_object();
  linear["full_attn_layers"] = mla;
  linear["kda_layers"] = kda;
}

json::object text_config(const Dims& d) {
  const bool k3 = d.residual_block != 0;
  json::object t = {{"architectures", json::array{"KimiLinearForCausalLM"}},
                    {"model_type", "kimi_linear"},
                    {"dtype", "bfloat16"},
                    {"hidden_size", d.hidden},
                    {"num_hidden_layers", d.layers},
                    {"vocab_size", d.vocab},
                    {"rms_norm_eps", 1e-5},
                    {"max_position_embeddings", d.max_positions},
                    {"tie_word_embeddings", false},
                    {"num_attention_heads", d.heads},
                    {"num_key_value_heads", d.heads},
                    {"kv_lora_rank", d.kv_lora},
                    {"qk_nope_head_dim", 128},
                    {"qk_rope_head_dim", 64},
                    {"v_head_dim", 128},
                    {"mla_use_nope", true},
                    {"intermediate_size", d.dense_width},
                    {"first_k_dense_replace", 1},
                    {"moe_layer_freq", 1},
                    {"num_experts", d.experts},
                    {"num_experts_per_token", d.top_k},
                    {"num_shared_experts", d.shared},
                    {"moe_intermediate_size", d.expert_width},
                    {"moe_router_activation_func", "sigmoid"},
                    {"moe_renormalize", true},
                    {"num_expert_group", 1},
                    {"topk_group", 1},
                    {"routed_scaling_factor", d.routed_scale}};
  json::object linear = {{"num_heads", d.heads}, {"head_dim", 128}, {"short_conv_kernel_size", 4}};
  t["q_lora_rank"] = d.q_lora != 0 ? json::value(d.q_lora) : json::value(nullptr);
  if (k3) {
    linear["use_full_rank_gate"] = true;
    linear["gate_lower_bound"] = -5.0;
    t["mla_use_output_gate"] = true;
    t["attn_res_block_size"] = d.residual_block;
    t["hidden_act"] = "situ";
    t["activation_situ_beta"] = 4.0;
    t["activation_situ_linear_beta"] = 25.0;
    t["routed_expert_hidden_size"] = d.latent;
    t["latent_moe_use_norm"] = true;
    t["quantization_config"] =
        json::object{{"quant_method", "compressed-tensors"},
                     {"format", "mxfp4-pack-quantized"},
                     {"config_groups",
                      json::object{{"group_0", json::object{{"weights", json::object{{"num_bits", 4},
                                                                                     {"type", "float"},
                                                                                     {"symmetric", true},
                                                                                     {"strategy", "group"},
                                                                                     {"group_size", 32},
                                                                                     {"scale_dtype", "torch.uint8"}}},
                                                            {"input_activations", nullptr}}}}}};
  } else {
    t["hidden_act"] = "silu";
  }
  t["linear_attn_config"] = linear;
  set_layer_lists(t);
  return t;
}

/// Applies "key=value"; true when it set a layer list.
Result<bool> apply_override(json::object& text, const std::string& entry) {
  const size_t equals = entry.find('=');
  if (equals == std::string::npos || equals == 0) return Error{fmt::format("--set {}: expected key=value", entry)};
  std::string key = entry.substr(0, equals);
  const auto value = parse_json(entry.substr(equals + 1));
  if (!value) return Error{fmt::format("--set {}: the value is no JSON", entry)};
  json::object* target = &text;
  constexpr std::string_view kLinear = "linear_attn_config.";
  if (key.starts_with(kLinear)) {
    key.erase(0, kLinear.size());
    target = &text["linear_attn_config"].as_object();
  }
  if (target == &text && key == "linear_attn_config") return Error{"--set linear_attn_config: name one of its keys"};
  if (!target->contains(key)) return Error{fmt::format("--set {}: the config has no key {}", entry, key)};
  (*target)[key] = *value;
  return key == "full_attn_layers" || key == "kda_layers";
}

}  // namespace

std::span<const std::string_view> synth_presets() {
  return kNames;
}

Result<json::value> synth_config(std::string_view preset, std::span<const std::string> overrides) {
  const auto found = std::find_if(kDims.begin(), kDims.end(), [&](const Dims& d) { return d.name == preset; });
  if (found == kDims.end()) {
    return Error{fmt::format("there is no preset {}; presets are {}", preset, fmt::join(kNames, ", "))};
  }
  json::object text = text_config(*found);
  bool lists_given = false;
  bool layers_changed = false;
  for (const std::string& entry : overrides) {
    const auto applied = apply_override(text, entry);
    if (!applied) return applied.error();
    lists_given = lists_given || *applied;
    layers_changed = layers_changed || entry.starts_with("num_hidden_layers=");
  }
  if (layers_changed && !lists_given) set_layer_lists(text);
  const json::value& vocab_value = text["vocab_size"];
  if (!vocab_value.is_int64() || vocab_value.get_int64() < 256 + kSpecialSlots) {
    return Error{fmt::format("vocab_size must be at least {}", 256 + kSpecialSlots)};
  }
  const int64_t special = vocab_value.get_int64() - kSpecialSlots;
  json::object root = found->residual_block != 0
                          ? json::object{{"architectures", json::array{"KimiK3ForConditionalGeneration"}},
                                         {"model_type", "kimi_k3"},
                                         {"text_config", text}}
                          : text;
  root["bos_token_id"] = special;
  root["eos_token_id"] = special + 2;
  root["pad_token_id"] = special + kSpecialSlots - 1;
  return json::value(root);
}

}  // namespace perigee
