// StepPlan: what one step does, as a value: flat arrays for the device and one SampleRow per wanted token. Made by the
// Scheduler, consumed by a StepRunner (the Worker, or a fake in tests), answered by a StepResult.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "engine/request.h"
#include "tensor/ops.h"

namespace perigee {

/// One token to sample from the logits of row `logit_row` (an index into StepPlan::logit_rows).
struct SampleRow {
  int32_t logit_row = 0;
  int64_t position = 0;  ///< index of the new token in its sequence: the Philox counter
  uint64_t seed = 0;
  bool mask_stops = false;  ///< min_new_tokens not reached: stop ids may not be chosen
  std::shared_ptr<const SamplingParams> sampling;
  std::span<const int32_t> prompt;  ///< for the penalties; valid until commit
  std::span<const int32_t> output;
};

struct StepPlan {
  uint64_t epoch = 0;               ///< counts launched steps
  std::vector<int32_t> tokens;      ///< [T]
  std::vector<Segment> segments;    ///< one per sequence in the step, decode rows first
  std::vector<int32_t> pages;       ///< flat page table
  std::vector<int32_t> logit_rows;  ///< [R] rows whose logits are wanted, ascending
  std::vector<SampleRow> samples;   ///< [R]
  /// Memory of requests that failed: zeroed before the step, so that no non-finite value waits there for a successor.
  std::vector<int32_t> zero_pages;
  std::vector<int32_t> zero_slots;
};

struct SampledToken {
  TokenOutput token;
  bool finite = true;  ///< false: the logits held NaN or infinity; the request fails
};

struct StepResult {
  uint64_t epoch = 0;
  std::vector<SampledToken> samples;  ///< one per StepPlan::samples
};

/// Runs one step. Called on the engine thread only. Throws std::runtime_error when the device failed: the step is then
/// rolled back and its requests fail.
class StepRunner {
 public:
  virtual ~StepRunner() = default;
  virtual StepResult run(const StepPlan& plan) = 0;
};

}  // namespace perigee
