#include "model/memory_plan.h"

#include <cmath>
#include <cstdlib>

#include "model/weight_loader.h"

namespace perigee {

MemoryPlan plan_memory(const ModelConfig& config, DType kv_dtype, int64_t context, int64_t memory) {
  return {.weights = weight_bytes(config),
          .state_per_request = state_bytes_per_slot(config),
          .kv_per_token = kv_bytes_per_token(config, kv_dtype),
          .context = context,
          .memory = memory};
}

std::string human_bytes(int64_t bytes) {
  constexpr const char* kUnits[] = {"B", "kB", "MB", "GB", "TB", "PB"};
  auto value = static_cast<double>(bytes);
  size_t unit = 0;
  for (; std::abs(value) >= 1000 && unit + 1 < std::size(kUnits); ++unit) value /= 1000;
  return unit == 0 ? fmt::format("{} B", bytes) : fmt::format("{:.2f} {}", value, kUnits[unit]);
}

Result<int64_t> parse_bytes(const std::string& text) {
  char* end = nullptr;
  const double number = std::strtod(text.c_str(), &end);
  const std::string unit = end;
  double factor = 0;
  for (const auto& [name, value] : {std::pair{"", 1.0},
                                    {"B", 1.0},
                                    {"kB", 1e3},
                                    {"KB", 1e3},
                                    {"MB", 1e6},
                                    {"GB", 1e9},
                                    {"TB", 1e12},
                                    {"KiB", 0x1p10},
                                    {"MiB", 0x1p20},
                                    {"GiB", 0x1p30},
                                    {"TiB", 0x1p40}}) {
    if (unit == name) factor = value;
  }
  const double bytes = number * factor;
  if (end == text.c_str() || factor == 0 || !(bytes >= 1 && bytes < 0x1p62)) {
    return Error{fmt::format("\"{}\" is no size; write 512MB, 24GB or 16GiB", text)};
  }
  return static_cast<int64_t>(bytes);
}

}  // namespace perigee
