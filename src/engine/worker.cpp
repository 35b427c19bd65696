// One step on one device: upload the plan, run the model, bring the logits to the host, sample. See worker.h.
#include "engine/worker.h"

#include "engine/sampler.h"

namespace perigee {
namespace {

/// Zeroes the memory of requests that failed; see StepPlan.
void zero_caches(const StepPlan& plan, std::span<const LayerCache> layers, Device& device) {
  for (const LayerCache& layer : layers) {
    if (!layer.kv.empty()) {
      for (const int32_t page : plan.zero_pages) device.ops->fill_zero(device.context, layer.kv.at(page));
    }
    if (layer.state.empty()) continue;
    for (const int32_t slot : plan.zero_slots) {
      device.ops->fill_zero(device.context, layer.state.at(slot));
      device.ops->fill_zero(device.context, layer.conv.at(slot));
    }
  }
}

}  // namespace

Worker::Worker(std::shared_ptr<const Model> model, Device device, const CacheShape& shape, int64_t max_rows,
               int64_t max_samples)
    : model_(std::move(model)),
      device_(std::move(device)),
      caches_(*device_.ops, model_->config(), shape),
      max_rows_(max_rows),
      max_samples_(max_samples),
      arena_(*device_.ops, model_->arena_bytes(max_rows, max_samples, device_.ops->activation)) {}

StepResult Worker::run(const StepPlan& plan) {
  const auto rows = static_cast<int64_t>(plan.tokens.size());
  const auto wanted = static_cast<int64_t>(plan.logit_rows.size());
  PERIGEE_CHECK(rows <= max_rows_ && wanted <= max_samples_, "step of {} rows and {} samples, sized for {} and {}",
                rows, wanted, max_rows_, max_samples_);
  const Ops& ops = *device_.ops;
  arena_.reset();
  zero_caches(plan, caches_.layers(), device_);

  StepInput input;
  input.tokens = arena_.make(DType::i32, {rows});
  input.logit_rows = arena_.make(DType::i32, {wanted});
  input.segments = plan.segments;
  input.pages = plan.pages;
  ops.upload(device_.context, input.tokens, plan.tokens.data());
  if (wanted > 0) ops.upload(device_.context, input.logit_rows, plan.logit_rows.data());
  View logits = model_->forward(input, caches_.layers(), arena_, device_);

  StepResult result;
  result.epoch = plan.epoch;
  if (wanted == 0) return result;
  if (!ops.host_memory) {
    host_logits_.resize(static_cast<size_t>(logits.elements()));
    ops.download(device_.context, host_logits_.data(), logits);
    logits = View(host_logits_.data(), DType::f32, {wanted, logits.cols()});
  }
  result.samples = sample(logits, plan.samples, *device_.pool);
  return result;
}

}  // namespace perigee
