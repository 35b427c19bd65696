#include "model/config.h"

#include <algorithm>
#include <filesystem>
#include <set>

#include "base/file.h"
#include "base/json.h"

namespace perigee {
namespace {

/// Reads typed keys of one object; the first problem is kept and ends up in the Result.
class Reader {
 public:
  Reader(const json::object& object, std::string path) : object_(object), path_(std::move(path)) {}

  const std::optional<Error>& error() const { return error_; }
  void fail(std::string message) {
    if (!error_) error_ = Error{std::move(message)};
  }

  const json::value* find(std::string_view key) const {
    const json::value* value = object_.if_contains(key);
    return value == nullptr || value->is_null() ? nullptr : value;
  }

  int64_t integer(std::string_view key, int64_t low, int64_t high) {
    const json::value* value = find(key);
    if (value == nullptr) {
      fail(fmt::format("config.json has no {}{}", path_, key));
      return low;
    }
    return as_integer(*value, key, low, high);
  }

  int64_t integer_or(std::string_view key, int64_t fallback, int64_t low, int64_t high) {
    const json::value* value = find(key);
    return value == nullptr ? fallback : as_integer(*value, key, low, high);
  }

  double number(std::string_view key) {
    const json::value* value = find(key);
    if (value == nullptr) {
      fail(fmt::format("config.json has no {}{}", path_, key));
      return 0;
    }
    if (!value->is_number()) {
      fail(wrong(key, *value, "a number"));
      return 0;
    }
    return value->to_number<double>();
  }

  bool boolean_or(std::string_view key, bool fallback) {
    const json::value* value = find(key);
    if (value == nullptr) return fallback;
    if (!value->is_bool()) {
      fail(wrong(key, *value, "true or false"));
      return fallback;
    }
    return value->get_bool();
  }

  std::string text_or(std::string_view key, std::string fallback) {
    const json::value* value = find(key);
    if (value == nullptr) return fallback;
    if (!value->is_string()) {
      fail(wrong(key, *value, "a string"));
      return fallback;
    }
    return std::string(value->get_string());
  }

  /// The key must be absent or hold `expected`: anything else is a computation this program does not have.
  template <class T>
  void require(std::string_view key, T expected) {
    const json::value* value = find(key);
    if (value != nullptr && *value != json::value(expected)) {
      fail(wrong(key, *value, json_dump(json::value(expected))));
    }
  }

  std::vector<int64_t> integers(std::string_view key) {
    std::vector<int64_t> list;
    const json::value* value = find(key);
    if (value == nullptr || !value->is_array()) {
      fail(fmt::format("config.json has no list {}{}", path_, key));
      return list;
    }
    for (const auto& item : value->get_array()) {
      if (!item.is_int64()) {
        fail(wrong(key, *value, "a list of integers"));
        return list;
      }
      list.push_back(item.get_int64());
    }
    return list;
  }

 private:
  std::string wrong(std::string_view key, const json::value& value, std::string_view expected) const {
    return fmt::format("config.json: {}{} is {}, supported is {}", path_, key, json_dump(value), expected);
  }

  int64_t as_integer(const json::value& value, std::string_view key, int64_t low, int64_t high) {
    if (!value.is_int64() || value.get_int64() < low || value.get_int64() > high) {
      fail(wrong(key, value, fmt::format("an integer in [{}, {}]", low, high)));
      return low;
    }
    return value.get_int64();
  }

  const json::object& object_;
  std::string path_;
  std::optional<Error> error_;
};

constexpr int64_t kMaxDim = int64_t{1} << 24;

void read_stream(Reader& r, ModelConfig& c) {
  c.hidden = r.integer("hidden_size", 1, kMaxDim);
  c.layers = r.integer("num_hidden_layers", 1, 4096);
  c.vocab = r.integer("vocab_size", 1, kMaxDim);
  c.max_positions = r.find("max_position_embeddings") != nullptr ? r.integer("max_position_embeddings", 1, kMaxDim)
                                                                 : r.integer("model_max_length", 1, kMaxDim);
  c.rms_eps = static_cast<float>(r.number("rms_norm_eps"));
  c.residual_block = r.integer_or("attn_res_block_size", 0, 0, 4096);
  if (c.residual_block != 0 && c.residual_rows() > 62)
    r.fail("config.json: attn_res_block_size gives more than 62 blocks");
  r.require("tie_word_embeddings", false);
}

void read_attention(Reader& r, ModelConfig& c) {
  c.heads = r.integer("num_attention_heads", 1, 65536);
  r.require("num_key_value_heads", c.heads);
  c.q_lora_rank = r.integer_or("q_lora_rank", 0, 1, kMaxDim);
  c.kv_lora_rank = r.integer("kv_lora_rank", 1, kMaxDim);
  c.qk_nope = r.integer("qk_nope_head_dim", 1, 4096);
  c.qk_rope = r.integer("qk_rope_head_dim", 0, 4096);
  c.v_head_dim = r.integer("v_head_dim", 1, 4096);
  r.require("mla_use_nope", true);
  c.mla_gate = r.boolean_or("mla_use_output_gate", false);
}

void read_linear_attention(Reader& r, const json::object& linear, ModelConfig& c) {
  Reader l(linear, "linear_attn_config.");
  c.kda_heads = l.integer("num_heads", 1, 65536);
  c.kda_head_dim = l.integer("head_dim", 1, 512);
  c.conv_taps = l.integer("short_conv_kernel_size", 2, 16);
  if (l.find("gate_lower_bound") != nullptr) {
    c.gate_lower_bound = static_cast<float>(l.number("gate_lower_bound"));
    if (!(*c.gate_lower_bound < 0 && *c.gate_lower_bound >= -5)) {
      l.fail(fmt::format("config.json: linear_attn_config.gate_lower_bound is {}, supported is [-5, 0)",
                         *c.gate_lower_bound));
    }
  }
  // The gate's rank has its own key in newer files; the lower bound came with the full-rank gate.
  c.full_rank_gate = l.boolean_or("use_full_rank_gate", c.gate_lower_bound.has_value());
  c.is_mla.assign(static_cast<size_t>(c.layers), false);
  std::set<int64_t> seen;
  for (const auto& [key, mla] : {std::pair{"full_attn_layers", true}, {"kda_layers", false}}) {
    for (const int64_t layer : l.integers(key)) {
      if (layer < 1 || layer > c.layers || !seen.insert(layer).second) {
        l.fail(fmt::format(
            "config.json: linear_attn_config.{} names layer {}: the lists count from 1 to {} and name each layer once",
            key, layer, c.layers));
        continue;
      }
      c.is_mla[static_cast<size_t>(layer - 1)] = mla;
    }
  }
  if (!l.error() && static_cast<int64_t>(seen.size()) != c.layers) {
    l.fail(fmt::format("config.json: linear_attn_config names {} of {} layers", seen.size(), c.layers));
  }
  if (l.error()) r.fail(l.error()->message);
}

void read_activation(Reader& r, ModelConfig& c) {
  const std::string name = r.text_or("hidden_act", "");
  if (name == "silu") {
    c.activation = {.kind = Activation::Kind::silu};
  } else if (name == "situ") {
    c.activation = {.kind = Activation::Kind::situ,
                    .beta = static_cast<float>(r.number("activation_situ_beta")),
                    .linear_beta = static_cast<float>(r.number("activation_situ_linear_beta"))};
    if (!(c.activation.beta > 0 && c.activation.linear_beta > 0))
      r.fail("config.json: the SiTU betas must be positive");
  } else {
    r.fail(fmt::format("config.json: hidden_act is \"{}\", supported is situ or silu", name));
  }
}

void read_experts(Reader& r, ModelConfig& c) {
  c.dense_layers = r.integer_or("first_k_dense_replace", 0, 0, c.layers);
  c.dense_width = r.integer("intermediate_size", 1, kMaxDim);
  c.experts = r.integer("num_experts", 1, 65536);
  // Kimi K3 writes num_experts_per_token; some files of the family say num_experts_per_tok.
  c.experts_per_token = r.find("num_experts_per_token") != nullptr ? r.integer("num_experts_per_token", 1, c.experts)
                                                                   : r.integer("num_experts_per_tok", 1, c.experts);
  c.expert_width = r.integer("moe_intermediate_size", 1, kMaxDim);
  c.shared_experts = r.integer("num_shared_experts", 1, 64);
  c.latent = r.integer_or("routed_expert_hidden_size", 0, 1, kMaxDim);
  c.routed_scale = static_cast<float>(r.number("routed_scaling_factor"));
  r.require("moe_router_activation_func", "sigmoid");
  r.require("moe_renormalize", true);
  r.require("moe_layer_freq", 1);
  r.require("num_expert_group", 1);
  r.require("topk_group", 1);
  if (c.latent != 0) r.require("latent_moe_use_norm", true);
  if (c.experts_per_token > 1024) r.fail("config.json: num_experts_per_token is above 1024");
}

void read_quantization(Reader& r, const json::object& text, const json::object& root, ModelConfig& c) {
  const json::value* value = text.if_contains("quantization_config");
  if (value == nullptr) value = root.if_contains("quantization_config");
  if (value == nullptr || value->is_null()) return;
  if (!value->is_object()) {
    r.fail("config.json: quantization_config is no object");
    return;
  }
  Reader q(value->get_object(), "quantization_config.");
  q.require("quant_method", "compressed-tensors");
  const std::string format = q.text_or("format", "");
  if (format != "mxfp4-pack-quantized") {
    q.fail(fmt::format("config.json: quantization_config.format is \"{}\", supported is mxfp4-pack-quantized", format));
  }
  if (const json::value* groups = q.find("config_groups"); groups != nullptr && groups->is_object()) {
    for (const auto& [name, group] : groups->get_object()) {
      const json::object* weights = group.is_object() && group.get_object().if_contains("weights") != nullptr
                                        ? group.get_object().at("weights").if_object()
                                        : nullptr;
      if (weights == nullptr) continue;
      Reader w(*weights, fmt::format("quantization_config.config_groups.{}.weights.", std::string_view(name)));
      w.require("num_bits", 4);
      w.require("type", "float");
      w.require("group_size", kMxGroup);
      if (w.error()) q.fail(w.error()->message);
    }
  }
  c.mxfp4_experts = true;
  if (c.expert_input() % kMxGroup != 0 || c.expert_width % kMxGroup != 0) {
    q.fail(fmt::format("config.json: MXFP4 experts need widths in multiples of {}, these are {} and {}", kMxGroup,
                       c.expert_input(), c.expert_width));
  }
  if (q.error()) r.fail(q.error()->message);
}

void add_eos(const json::value* value, std::vector<int32_t>& ids) {
  if (value == nullptr) return;
  const auto add = [&](const json::value& item) {
    if (!item.is_int64()) return;
    const auto id = static_cast<int32_t>(item.get_int64());
    if (std::find(ids.begin(), ids.end(), id) == ids.end()) ids.push_back(id);
  };
  if (value->is_array()) {
    for (const auto& item : value->get_array()) add(item);
  } else {
    add(*value);
  }
}

void read_tokens(Reader& r, const json::object& text, const json::object& root, ModelConfig& c) {
  for (const json::object* object : {&root, &text}) {
    add_eos(object->if_contains("eos_token_id"), c.eos_ids);
    for (const auto& [key, target] : {std::pair{"bos_token_id", &c.bos_id}, {"pad_token_id", &c.pad_id}}) {
      const json::value* value = object->if_contains(key);
      if (value != nullptr && value->is_int64() && !*target) *target = static_cast<int32_t>(value->get_int64());
    }
  }
  for (const int32_t id : c.eos_ids) {
    if (id < 0 || id >= c.vocab)
      r.fail(fmt::format("config.json: eos_token_id {} lies outside the vocabulary of {}", id, c.vocab));
  }
}

}  // namespace

int64_t ModelConfig::mla_layers() const {
  return std::count(is_mla.begin(), is_mla.end(), true);
}

Result<ModelConfig> parse_config(std::string_view config_json) {
  const auto parsed = parse_json(config_json);
  if (!parsed) return Error{"config.json: " + parsed.error().message};
  const json::object* root = parsed->if_object();
  if (root == nullptr) return Error{"config.json is no JSON object"};

  ModelConfig c;
  Reader top(*root, "");
  const json::value* architectures = top.find("architectures");
  if (architectures == nullptr || !architectures->is_array() || architectures->get_array().empty() ||
      !architectures->get_array()[0].is_string()) {
    return Error{"config.json has no architectures"};
  }
  c.architecture = std::string(architectures->get_array()[0].get_string());
  if (c.architecture == "KimiK31ForConditionalGeneration") {
    return Error{"KimiK31ForConditionalGeneration (sparse attention indexer) is not supported yet"};
  }
  const bool nested = c.architecture == "KimiK3ForConditionalGeneration";
  if (!nested && c.architecture != "KimiLinearForCausalLM") {
    return Error{fmt::format(
        "architecture {} is not supported; supported are KimiK3ForConditionalGeneration and KimiLinearForCausalLM",
        c.architecture)};
  }
  c.tensor_prefix = nested ? "language_model." : "";
  const json::value* text_value = nested ? top.find("text_config") : nullptr;
  if (nested && (text_value == nullptr || !text_value->is_object())) return Error{"config.json has no text_config"};
  const json::object& text = nested ? text_value->get_object() : *root;

  Reader r(text, nested ? "text_config." : "");
  const json::value* linear = r.find("linear_attn_config");
  if (linear == nullptr || !linear->is_object()) return Error{"config.json has no linear_attn_config"};
  read_stream(r, c);
  read_attention(r, c);
  read_linear_attention(r, linear->get_object(), c);
  read_activation(r, c);
  read_experts(r, c);
  read_quantization(r, text, *root, c);
  read_tokens(r, text, *root, c);
  if (r.error()) return *r.error();
  return c;
}

Result<ModelConfig> load_config(const std::string& folder) {
  const auto text = read_file(folder + "/config.json");
  if (!text) return text.error();
  auto config = parse_config(*text);
  if (!config) return config;
  const std::string generation = folder + "/generation_config.json";
  if (std::filesystem::exists(generation)) {
    const auto generation_text = read_file(generation);
    if (!generation_text) return generation_text.error();
    const auto value = parse_json(*generation_text);
    if (!value || !value->is_object()) return Error{generation + " is no JSON object"};
    add_eos(value->get_object().if_contains("eos_token_id"), config->eos_ids);
  }
  return config;
}

}  // namespace perigee
