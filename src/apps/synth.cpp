// `perigee synth`: writes a synthetic checkpoint, or says what it would write.

#include <CLI/CLI.hpp>
#include <filesystem>
#include <stdexcept>

#include "apps/commands.h"
#include "base/thread_pool.h"
#include "model/memory_plan.h"
#include "model/synth.h"

namespace perigee {
namespace {

struct SynthCommand {
  std::string folder;
  std::string preset = "tiny";
  std::vector<std::string> overrides;
  uint64_t seed = 0;
  bool dry_run = false;
  bool force = false;
};

void print_tensor(const TensorSpec& spec, int64_t copies) {
  fmt::print("{:<88} {:>5} [{}]{}\n", spec.name, dtype_name(spec.dtype), fmt::join(spec.shape, ", "),
             copies > 1 ? fmt::format(" x {}", copies) : "");
}

/// Experts are alike, so a layer's are shown once, with {e} for the number.
void print_tensors(const ModelConfig& c) {
  for (int64_t l = 0; l < c.layers; ++l) {
    for (const TensorSpec& spec : layer_trunk(c, l)) print_tensor(spec, 1);
    if (c.is_dense(l)) continue;
    for (TensorSpec spec : expert_tensors(c, l, 0)) {
      spec.name.replace(spec.name.find("experts.0."), 10, "experts.{e}.");
      print_tensor(spec, c.experts);
    }
  }
  for (const TensorSpec& spec : top_tensors(c)) print_tensor(spec, 1);
}

void print_totals(const ModelTotals& totals) {
  fmt::print("\n{:<28} {:>9} {:>22} {:>22}\n", "part", "tensors", "parameters", "bytes");
  for (int p = 0; p < kParts; ++p) {
    const PartTotals& t = totals.parts[p];
    if (t.tensors != 0)
      fmt::print("{:<28} {:>9} {:>22} {:>22}\n", part_name(static_cast<Part>(p)), t.tensors, t.parameters, t.bytes);
  }
  fmt::print("{:<28} {:>9} {:>22} {:>22}\n", "total", totals.all.tensors, totals.all.parameters, totals.all.bytes);
}

void run_synth(const SynthCommand& command) {
  const auto config_json = synth_config(command.preset, command.overrides);
  if (!config_json) throw std::runtime_error(config_json.error().message);
  const auto config = parse_config(json_dump(*config_json));
  if (!config) throw std::runtime_error(config.error().message);
  if (command.dry_run) {
    print_tensors(*config);
    print_totals(count_tensors(*config));
    return;
  }
  namespace fs = std::filesystem;
  if (command.folder.empty()) throw std::runtime_error("synth needs a folder to write to (or --dry-run)");
  std::error_code code;
  fs::create_directories(command.folder, code);
  if (code) throw std::runtime_error(fmt::format("cannot make the folder {}: {}", command.folder, code.message()));
  if (!fs::is_empty(command.folder) && !command.force) {
    throw std::runtime_error(fmt::format("{} is not empty; --force writes into it", command.folder));
  }
  const int64_t needed = count_tensors(*config).all.bytes;
  const auto space = fs::space(command.folder, code);
  if (!code && static_cast<int64_t>(space.available) < needed) {
    throw std::runtime_error(fmt::format("{} has {} free, the checkpoint needs {}", command.folder,
                                         human_bytes(static_cast<int64_t>(space.available)), human_bytes(needed)));
  }
  write_synthetic_checkpoint(*config_json, command.folder, {.seed = command.seed, .threads = available_cpus()});
  fmt::print("wrote {} tensors, {} to {}\n", count_tensors(*config).all.tensors, human_bytes(needed), command.folder);
}

}  // namespace

void add_synth_command(CLI::App& app) {
  auto command = std::make_shared<SynthCommand>();
  CLI::App* sub = app.add_subcommand("synth", "write a synthetic checkpoint of given dimensions");
  sub->add_option("folder", command->folder, "where to write; made if missing");
  sub->add_option("--preset", command->preset, fmt::format("{}", fmt::join(synth_presets(), ", ")))
      ->capture_default_str();
  sub->add_option("--seed", command->seed, "same seed, same bytes")->capture_default_str();
  sub->add_option("--set", command->overrides, "change a config key: --set num_hidden_layers=12")
      ->take_all()
      ->allow_extra_args(false);
  sub->add_flag("--dry-run", command->dry_run, "print the tensor list and totals, write nothing");
  sub->add_flag("--force", command->force, "write into a folder that is not empty");
  sub->callback([command] { run_synth(*command); });
}

}  // namespace perigee
