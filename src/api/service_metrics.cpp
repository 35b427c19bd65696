#include "api/service_metrics.h"

namespace perigee {

ServiceMetrics::ServiceMetrics(const Engine& engine, std::string_view model_name, int64_t page_size)
    : page_size_(page_size) {
  const Labels model = {{"model_name", std::string(model_name)}};
  const auto gauge = [&](std::string_view name, std::string_view help) { return &registry_.gauge(name, help, model); };
  const auto counter = [&](std::string_view name, std::string_view help) {
    return &registry_.counter(name, help, model);
  };
  const auto histogram = [&](std::string_view name, std::string_view help, std::vector<double> bounds) {
    return &registry_.histogram(name, help, std::move(bounds), model);
  };
  running_ = gauge("sglang:num_running_reqs", "Requests that hold a state slot.");
  queued_ = gauge("sglang:num_queue_reqs", "Requests that wait.");
  throughput_ = gauge("sglang:gen_throughput", "Generated tokens per second over the last seconds.");
  token_usage_ = gauge("sglang:token_usage", "Share of the fuller of the latent cache and the state pool in use.");
  used_tokens_ = gauge("sglang:num_used_tokens", "Tokens of latent cache in use (whole pages).");
  state_usage_ = gauge("sglang:mamba_usage", "Share of the state slots in use.");
  retractions_ =
      gauge("sglang:num_retracted_reqs", "Requests sent back to the queue since the start, for lack of pages.");
  violations_ = gauge("perigee:invariant_violations", "Failed self-checks since the start.");
  prompt_tokens_ = counter("sglang:prompt_tokens_total", "Prompt tokens of finished requests.");
  generated_tokens_ = counter("sglang:generation_tokens_total", "Generated tokens of finished requests.");
  requests_ = counter("sglang:num_requests_total", "Requests that ended.");
  aborted_ = counter("perigee:requests_aborted_total", "Requests cancelled by their client or by /abort_request.");
  failed_ = counter("perigee:requests_failed_total", "Requests that ended with an error.");
  const std::vector<double> seconds = {0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300};
  time_to_first_token_ =
      histogram("sglang:time_to_first_token_seconds", "From the request to its first token.", seconds);
  inter_token_ = histogram("sglang:inter_token_latency_seconds", "Between two tokens of a request.",
                           {0.002, 0.005, 0.01, 0.02, 0.03, 0.05, 0.075, 0.1, 0.2, 0.5, 1, 5});
  latency_ = histogram("sglang:e2e_request_latency_seconds", "From the request to its last token.", seconds);
  registry_.before_render([this, &engine] { refresh(engine); });
}

void ServiceMetrics::refresh(const Engine& engine) {
  const EngineStats stats = engine.stats();
  const SchedulerStats& s = stats.scheduler;
  const auto share = [](int64_t free, int64_t total) {
    return total == 0 ? 0.0 : 1.0 - static_cast<double>(free) / static_cast<double>(total);
  };
  const double pages = share(s.pages_free, s.pages_total);
  const double slots = share(s.slots_free, s.slots_total);
  running_->set(static_cast<double>(s.running));
  queued_->set(static_cast<double>(s.queued));
  throughput_->set(stats.tokens_per_second);
  token_usage_->set(std::max(pages, slots));
  used_tokens_->set(static_cast<double>((s.pages_total - s.pages_free) * page_size_));
  state_usage_->set(slots);
  retractions_->set(static_cast<double>(s.retractions));
  violations_->set(static_cast<double>(stats.violations));
}

void ServiceMetrics::request_finished(const Finish& finish) {
  requests_->add();
  prompt_tokens_->add(static_cast<double>(finish.prompt_tokens));
  generated_tokens_->add(static_cast<double>(finish.completion_tokens));
  if (finish.reason == FinishReason::cancelled) aborted_->add();
  if (finish.reason == FinishReason::error) failed_->add();
}

}  // namespace perigee
