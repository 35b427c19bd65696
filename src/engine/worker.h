// Worker: one device: plan -> forward -> sample. Owns the caches' bytes, the arena and the device; shares the model.
// Used by the engine thread only.
#pragma once

#include <memory>

#include "engine/plan.h"
#include "model/cache_memory.h"
#include "model/k3.h"
#include "tensor/device.h"

namespace perigee {

class Worker final : public StepRunner {
 public:
  /// `max_rows`: the scheduler's chunk_tokens; `max_samples`: its max_running. The arena is sized for both.
  Worker(std::shared_ptr<const Model> model, Device device, const CacheShape& shape, int64_t max_rows,
         int64_t max_samples);
  StepResult run(const StepPlan& plan) override;

  const CacheMemory& caches() const { return caches_; }
  int64_t arena_bytes() const { return arena_.bytes(); }

 private:
  std::shared_ptr<const Model> model_;
  Device device_;
  CacheMemory caches_;
  int64_t max_rows_;
  int64_t max_samples_;
  Arena arena_;
  std::vector<float> host_logits_;
};

}  // namespace perigee
