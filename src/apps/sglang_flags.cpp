#include "apps/sglang_flags.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <numeric>
#include <stdexcept>
#include <string_view>
#include <vector>

#include "base/check.h"

namespace perigee {
namespace {

/// SGLang's flags that operators of this family use and that have no meaning here yet.
constexpr std::string_view kNotYet[] = {
    "--admin-api-key",
    "--attention-backend",
    "--crash-dump-folder",
    "--cuda-graph-max-bs",
    "--dcp-comm-backend",
    "--dcp-size",
    "--decode-attention-backend",
    "--decode-context-parallel-size",
    "--decode-log-interval",
    "--default-priority-value",
    "--disable-custom-all-reduce",
    "--disable-overlap-schedule",
    "--disable-priority-preemption",
    "--disable-radix-cache",
    "--disaggregation-bootstrap-port",
    "--disaggregation-mode",
    "--disaggregation-transfer-backend",
    "--dist-init-addr",
    "--dist-timeout",
    "--dp-size",
    "--enable-cache-report",
    "--enable-dp-attention",
    "--enable-hierarchical-cache",
    "--enable-mixed-chunk",
    "--enable-priority-scheduling",
    "--enable-strict-thinking",
    "--enable-symm-mem",
    "--enable-trace",
    "--ep-size",
    "--grammar-backend",
    "--hicache-io-backend",
    "--hicache-mem-layout",
    "--hicache-ratio",
    "--hicache-size",
    "--hicache-storage-backend",
    "--hicache-write-policy",
    "--kv-events-config",
    "--limit-mm-data-per-request",
    "--linear-attn-backend",
    "--load-format",
    "--log-requests",
    "--log-requests-level",
    "--mamba-full-memory-ratio",
    "--mamba-radix-cache-strategy",
    "--mamba-ssm-dtype",
    "--mamba-track-interval",
    "--max-mamba-cache-size",
    "--max-prefill-tokens",
    "--mem-fraction-static",
    "--model-loader-extra-config",
    "--moe-a2a-backend",
    "--moe-runner-backend",
    "--nnodes",
    "--node-rank",
    "--otlp-traces-endpoint",
    "--pp-size",
    "--prefill-attention-backend",
    "--radix-eviction-policy",
    "--retraction-policy",
    "--schedule-conservativeness",
    "--schedule-policy",
    "--skip-server-warmup",
    "--skip-tokenizer-init",
    "--speculative-algorithm",
    "--speculative-draft-model-path",
    "--speculative-num-draft-tokens",
    "--tensor-parallel-size",
    "--tokenizer-path",
    "--tp-size",
    "--watchdog-timeout",
};

/// Levenshtein distance.
size_t distance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = std::exchange(row[0], i);
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t change = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = std::exchange(row[j], std::min({change, row[j] + 1, row[j - 1] + 1}));
    }
  }
  return row.back();
}

}  // namespace

void refuse_unknown_flags(const CLI::App& command) {
  const auto extras = command.remaining();
  if (extras.empty()) return;
  const std::string flag = extras[0].substr(0, extras[0].find('='));
  if (std::find(std::begin(kNotYet), std::end(kNotYet), flag) != std::end(kNotYet)) {
    throw std::runtime_error(fmt::format("{} is not supported yet; remove it (nothing is ignored silently)", flag));
  }
  std::string nearest;
  size_t best = SIZE_MAX;
  for (const CLI::Option* option : command.get_options()) {
    for (const auto& name : option->get_lnames()) {
      const size_t d = distance("--" + name, flag);
      if (d < best) {
        best = d;
        nearest = "--" + name;
      }
    }
  }
  throw std::runtime_error(fmt::format("unknown argument {}; the nearest flag is {}", flag, nearest));
}

}  // namespace perigee
