// `perigee inspect`: what a model folder holds and what it needs.

#include <CLI/CLI.hpp>
#include <stdexcept>

#include "apps/commands.h"
#include "base/json.h"
#include "model/hub.h"
#include "model/memory_plan.h"
#include "model/tensor_list.h"
#include "model/weight_loader.h"
#include "text/tokenizer.h"

namespace perigee {
namespace {

struct InspectCommand {
  std::string path;
  std::string text;
  int64_t context = 32768;
  std::string memory;
  std::string kv_dtype = "bfloat16";
  bool as_json = false;
  bool with_tokens = false;
};

json::object describe_config(const ModelConfig& c) {
  return {{"architecture", c.architecture},
          {"layers", c.layers},
          {"kda_layers", c.kda_layers()},
          {"mla_layers", c.mla_layers()},
          {"hidden", c.hidden},
          {"vocab", c.vocab},
          {"max_positions", c.max_positions},
          {"kda_heads", c.kda_heads},
          {"kda_head_dim", c.kda_head_dim},
          {"heads", c.heads},
          {"kv_lora_rank", c.kv_lora_rank},
          {"q_lora_rank", c.q_lora_rank},
          {"residual_block", c.residual_block},
          {"experts", c.experts},
          {"experts_per_token", c.experts_per_token},
          {"expert_width", c.expert_width},
          {"latent", c.latent},
          {"expert_format", c.mxfp4_experts ? "mxfp4" : "bf16"},
          {"activation", c.activation.kind == Activation::Kind::situ ? "situ" : "silu"},
          {"eos_ids", json::array(c.eos_ids.begin(), c.eos_ids.end())}};
}

json::object describe_totals(const ModelTotals& totals) {
  json::object parts;
  const auto row = [](const PartTotals& t) {
    return json::object{{"tensors", t.tensors}, {"parameters", t.parameters}, {"bytes", t.bytes}};
  };
  for (int p = 0; p < kParts; ++p) {
    if (totals.parts[p].tensors != 0) parts[part_name(static_cast<Part>(p))] = row(totals.parts[p]);
  }
  parts["total"] = row(totals.all);
  return parts;
}

json::object describe_memory(const MemoryPlan& plan) {
  json::object memory = {{"weights", plan.weights},
                         {"state_per_request", plan.state_per_request},
                         {"kv_per_token", plan.kv_per_token},
                         {"context", plan.context},
                         {"per_request", plan.per_request()}};
  if (plan.memory != 0) {
    memory["memory"] = plan.memory;
    memory["requests"] = plan.requests();
  }
  return memory;
}

/// Names in the files that the text model does not use (the vision tower, for one).
json::object describe_files(const Checkpoint& checkpoint, const ModelConfig& config) {
  const auto problems = check_weights(checkpoint, config, 20);
  return {{"files", checkpoint.files().size()},
          {"tensors", checkpoint.tensors()},
          {"bytes", checkpoint.bytes()},
          {"other_tensors", static_cast<int64_t>(checkpoint.tensors()) - count_tensors(config).all.tensors},
          {"problems", json::array(problems.begin(), problems.end())}};
}

json::array describe_tokens(const Tokenizer& tokenizer, const std::string& text) {
  json::array tokens;
  for (const int32_t id : tokenizer.encode(text, Specials::as_ids)) {
    const int32_t one[] = {id};
    tokens.push_back(json::object{{"id", id}, {"text", tokenizer.decode(one)}});
  }
  return tokens;
}

void print_section(std::string_view title, const json::object& section) {
  fmt::print("\n{}\n", title);
  for (const auto& [key, value] : section) {
    if (const json::object* row = value.if_object()) {
      fmt::print("  {:<28} {:>9} tensors {:>20} parameters {:>12}\n", std::string_view(key),
                 row->at("tensors").as_int64(), row->at("parameters").as_int64(),
                 human_bytes(row->at("bytes").as_int64()));
    } else {
      fmt::print("  {:<28} {}\n", std::string_view(key), json_dump(value));
    }
  }
}

void print_report(const json::object& report) {
  for (const auto& [title, section] : report) {
    if (section.is_object()) print_section(title, section.get_object());
  }
  const auto bytes = [&](const char* key) { return human_bytes(report.at("memory").as_object().at(key).as_int64()); };
  fmt::print("\nweights {}, state {} per request, latent cache {} per token, {} per request of {} tokens\n",
             bytes("weights"), bytes("state_per_request"), bytes("kv_per_token"), bytes("per_request"),
             report.at("memory").as_object().at("context").as_int64());
  if (const json::value* tokens = report.if_contains("tokens")) {
    fmt::print("\ntokens\n");
    for (const auto& token : tokens->get_array()) {
      fmt::print("  {:>7}  {}\n", token.as_object().at("id").as_int64(), json_dump(token.as_object().at("text")));
    }
  }
}

void run_inspect(const InspectCommand& command) {
  const auto folder = resolve_model_path(command.path);
  if (!folder) throw std::runtime_error(folder.error().message);
  json::object report;
  if (command.with_tokens) {
    const auto tokenizer = Tokenizer::load(*folder);
    if (!tokenizer) throw std::runtime_error(tokenizer.error().message);
    report["tokens"] = describe_tokens(*tokenizer, command.text);
  }
  const auto config = load_config(*folder);
  if (!config) throw std::runtime_error(config.error().message);
  const auto checkpoint = Checkpoint::open(*folder);
  if (!checkpoint) throw std::runtime_error(checkpoint.error().message);
  int64_t memory = 0;
  if (!command.memory.empty()) {
    const auto parsed = parse_bytes(command.memory);
    if (!parsed) throw std::runtime_error("--memory: " + parsed.error().message);
    memory = *parsed;
  }
  const DType kv_dtype = command.kv_dtype == "float32" ? DType::f32 : DType::bf16;
  report["config"] = describe_config(*config);
  report["files"] = describe_files(*checkpoint, *config);
  report["parts"] = describe_totals(count_tensors(*config));
  report["memory"] = describe_memory(plan_memory(*config, kv_dtype, command.context, memory));
  if (command.as_json) {
    fmt::print("{}\n", json_dump(report));
  } else {
    print_report(report);
  }
  if (!report["files"].as_object()["problems"].as_array().empty()) {
    throw std::runtime_error("the checkpoint does not fit its config.json (see problems)");
  }
}

}  // namespace

void add_inspect_command(CLI::App& app) {
  auto command = std::make_shared<InspectCommand>();
  CLI::App* sub = app.add_subcommand("inspect", "config, tensors, parameters and memory plan of a model");
  sub->add_option("model", command->path, "folder, or hub id in the local cache")->required();
  CLI::Option* tokens = sub->add_option("--tokens", command->text, "show the token ids of a text");
  sub->add_option("--context", command->context, "tokens per request in the memory plan")
      ->capture_default_str()
      ->check(CLI::PositiveNumber);
  sub->add_option("--memory", command->memory, "budget, e.g. 24GB: how many requests fit");
  sub->add_option("--kv-cache-dtype", command->kv_dtype)
      ->capture_default_str()
      ->check(CLI::IsMember({"bfloat16", "float32"}));
  sub->add_flag("--json", command->as_json, "machine-readable");
  sub->callback([command, tokens] {
    command->with_tokens = tokens->count() > 0;
    run_inspect(*command);
  });
}

}  // namespace perigee
