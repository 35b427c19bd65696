#include "cpu/ops.h"

#include <stdexcept>

#include "cpu/parallel.h"
#include "cpu/ref/ops.h"
#include "cpu/simd/ops.h"

namespace perigee {
namespace {

std::string_view instructions(CpuLevel level) {
  switch (level) {
    case CpuLevel::reference:
      return "nothing special";
    case CpuLevel::avx2:
      return "AVX2, FMA";
    case CpuLevel::avx512:
      return "AVX-512 F, BW, DQ, VL";
  }
  return "?";
}

CpuChoice choose() {
  CpuChoice choice;
  for (const CpuLevel level : {CpuLevel::avx512, CpuLevel::avx2}) {
    if (cpu_supports(level)) {
      choice.level = level;
      choice.reason = fmt::format("this CPU has {}", instructions(level));
      return choice;
    }
    choice.rejected.emplace_back(level, fmt::format("this CPU lacks {}", instructions(level)));
  }
  choice.reason = "no faster level runs on this CPU";
  return choice;
}

}  // namespace

const Ops& reference_ops() {
  static const Ops table = {
      .name = "cpu",
      .activation = DType::f32,
      .scratch_bytes = kCpuScratchBytes,
      .host_memory = true,
      .allocate = ref::allocate,
      .release = ref::release,
      .upload = ref::upload,
      .download = ref::download,
      .copy = ref::copy,
      .fill_zero = ref::fill_zero,
      .embed = ref::embed,
      .gather_rows = ref::gather_rows,
      .rms_norm = ref::rms_norm,
      .add = ref::add,
      .residual_mix = ref::residual_mix,
      .matmul = ref::matmul,
      .glu = ref::glu,
      .sigmoid_gate = ref::sigmoid_gate,
      .gated_head_norm = ref::gated_head_norm,
      .short_conv = ref::short_conv,
      .kda = ref::kda,
      .mla_append = ref::mla_append,
      .mla = ref::mla,
      .router = ref::router,
      .moe = ref::moe,
  };
  return table;
}

std::string_view cpu_level_name(CpuLevel level) {
  switch (level) {
    case CpuLevel::reference:
      return "reference";
    case CpuLevel::avx2:
      return "avx2";
    case CpuLevel::avx512:
      return "avx512";
  }
  return "?";
}

bool cpu_supports(CpuLevel level) {
  __builtin_cpu_init();
  switch (level) {
    case CpuLevel::reference:
      return true;
    case CpuLevel::avx2:
      return __builtin_cpu_supports("avx2") != 0 && __builtin_cpu_supports("fma") != 0;
    case CpuLevel::avx512:
      return __builtin_cpu_supports("avx512f") != 0 && __builtin_cpu_supports("avx512bw") != 0 &&
             __builtin_cpu_supports("avx512dq") != 0 && __builtin_cpu_supports("avx512vl") != 0;
  }
  return false;
}

const CpuChoice& cpu_choice() {
  static const CpuChoice choice = choose();
  return choice;
}

const Ops& cpu_ops() {
  return cpu_ops(cpu_choice().level);
}

const Ops& cpu_ops(CpuLevel level) {
  if (!cpu_supports(level)) {
    throw std::runtime_error(
        fmt::format("the {} operations need {}, which this CPU lacks", cpu_level_name(level), instructions(level)));
  }
  // Each table is made by code of its own instruction set, so only on a CPU that has it.
  if (level == CpuLevel::avx512) {
    static const Ops table = avx512::override_ops(reference_ops());
    return table;
  }
  if (level == CpuLevel::avx2) {
    static const Ops table = avx2::override_ops(reference_ops());
    return table;
  }
  return reference_ops();
}

}  // namespace perigee
