// `perigee doctor`: what this build and this machine can run, and why each backend was or was not chosen.

#include <CLI/CLI.hpp>
#include <fstream>

#include "apps/commands.h"
#include "base/json.h"
#include "base/thread_pool.h"
#include "cpu/ops.h"
#include "model/memory_plan.h"

namespace perigee {
namespace {

std::string cpu_model() {
  std::ifstream info("/proc/cpuinfo");
  for (std::string line; std::getline(info, line);) {
    if (line.starts_with("model name")) return line.substr(line.find(':') + 2);
  }
  return "unknown";
}

int64_t memory_total() {
  std::ifstream info("/proc/meminfo");
  std::string key;
  int64_t kilobytes = 0;
  info >> key >> kilobytes;
  return kilobytes * 1024;
}

void run_doctor(bool as_json) {
  const CpuChoice& choice = cpu_choice();
  json::array backends;
  backends.push_back(
      {{"name", fmt::format("cpu/{}", cpu_level_name(choice.level))}, {"chosen", true}, {"reason", choice.reason}});
  for (const auto& [level, reason] : choice.rejected) {
    backends.push_back({{"name", fmt::format("cpu/{}", cpu_level_name(level))}, {"chosen", false}, {"reason", reason}});
  }
  backends.push_back({{"name", "cuda"}, {"chosen", false}, {"reason", "this build has no CUDA backend"}});
  const json::object report = {{"version", PERIGEE_VERSION},
                               {"compiler", __VERSION__},
                               {"cpu", cpu_model()},
                               {"cpus", available_cpus()},
                               {"memory", human_bytes(memory_total())},
                               {"backends", backends}};
  if (as_json) {
    fmt::print("{}\n", json_dump(report));
    return;
  }
  fmt::print("perigee {} ({})\n", PERIGEE_VERSION, __VERSION__);
  fmt::print("machine: {}, {} CPUs for this process, {} memory\n", cpu_model(), available_cpus(),
             human_bytes(memory_total()));
  for (const auto& backend : backends) {
    const json::object& b = backend.get_object();
    fmt::print("  {} {:<14} {}\n", b.at("chosen").as_bool() ? "*" : " ", std::string_view(b.at("name").as_string()),
               std::string_view(b.at("reason").as_string()));
  }
}

}  // namespace

void add_doctor_command(CLI::App& app) {
  auto as_json = std::make_shared<bool>(false);
  CLI::App* sub = app.add_subcommand("doctor", "what this build and machine can run, and why");
  sub->add_flag("--json", *as_json, "machine-readable");
  sub->callback([as_json] { run_doctor(*as_json); });
}

}  // namespace perigee
