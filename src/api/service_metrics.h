// ServiceMetrics: what /metrics shows, under SGLang's names where it has one. Owned by the Service; updated from any
// thread.
#pragma once

#include <memory>

#include "base/metrics.h"
#include "engine/engine.h"

namespace perigee {

class ServiceMetrics {
 public:
  /// `engine` is asked for its numbers at each render and must outlive this.
  ServiceMetrics(const Engine& engine, std::string_view model_name, int64_t page_size);

  std::string render() const { return registry_.render(); }
  void request_finished(const Finish& finish);
  void first_token(double seconds) { time_to_first_token_->observe(seconds); }
  void next_token(double seconds) { inter_token_->observe(seconds); }
  void request_ended(double seconds) { latency_->observe(seconds); }

 private:
  void refresh(const Engine& engine);

  int64_t page_size_;
  Registry registry_;
  Gauge* running_;
  Gauge* queued_;
  Gauge* throughput_;
  Gauge* token_usage_;
  Gauge* used_tokens_;
  Gauge* state_usage_;
  Gauge* retractions_;
  Gauge* violations_;
  Counter* prompt_tokens_;
  Counter* generated_tokens_;
  Counter* requests_;
  Counter* aborted_;
  Counter* failed_;
  Histogram* time_to_first_token_;
  Histogram* inter_token_;
  Histogram* latency_;
};

}  // namespace perigee
