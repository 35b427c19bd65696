// The CPU backend: the operation table of this machine, chosen once by CPUID. Named only by apps/ and tests.
//
// reference_ops() is plain C++ and the truth; the other levels override its heavy entries with vector code that obeys
// the same contract (tensor/ops.h) and agrees with it to rounding.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tensor/ops.h"

namespace perigee {

enum class CpuLevel { reference, avx2, avx512 };

/// "reference", "avx2", "avx512".
std::string_view cpu_level_name(CpuLevel level);

/// Why the chosen level runs and why each faster one does not. For the log, `perigee doctor` and /server_info.
struct CpuChoice {
  CpuLevel level = CpuLevel::reference;
  std::string reason;
  std::vector<std::pair<CpuLevel, std::string>> rejected;
};

const CpuChoice& cpu_choice();

/// True when this machine can run `level`.
bool cpu_supports(CpuLevel level);

/// The best table of this machine.
const Ops& cpu_ops();
/// A given level; throws std::runtime_error naming the missing instructions when the machine lacks it.
const Ops& cpu_ops(CpuLevel level);
const Ops& reference_ops();

}  // namespace perigee
