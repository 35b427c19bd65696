// Sequence: one live request inside the Scheduler, which owns it: its tokens, what it holds, where it stands.
//
// The tokens are the prompt followed by the output. The first `cached` of them are in the caches (state slot and
// pages); the others, at least one, are still to be run.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "cache/pools.h"
#include "engine/request.h"

namespace perigee {

/// Where a sequence stands, and what it holds there. It leaves the Scheduler in the call that ends it.
enum class Phase : uint8_t {
  queued,      ///< nothing: new, or retracted with its output kept
  prefilling,  ///< one slot and the pages of all its tokens; several are still to be run
  running,     ///< one slot and the pages of the cached tokens; the last token alone is to be run
};

struct Sequence {
  Request request;
  std::shared_ptr<const SamplingParams> sampling;  ///< the request's own
  uint64_t seed = 0;
  TimePoint queued_at;
  Phase phase = Phase::queued;

  std::vector<int32_t> output;
  int64_t cached = 0;
  std::vector<PageRef> pages;
  SlotRef slot;

  int64_t planned_rows = 0;  ///< in the outstanding step
  std::optional<std::string> cancel_reason;

  int64_t prompt_size() const { return static_cast<int64_t>(request.prompt.size()); }
  int64_t output_size() const { return static_cast<int64_t>(output.size()); }
  int64_t size() const { return prompt_size() + output_size(); }
  int64_t output_left() const { return sampling->max_new_tokens - output_size(); }
  int32_t token(int64_t i) const {
    return i < prompt_size() ? request.prompt[static_cast<size_t>(i)] : output[static_cast<size_t>(i - prompt_size())];
  }
};

}  // namespace perigee
