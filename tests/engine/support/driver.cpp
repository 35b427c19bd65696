// See driver.h.
#include "engine/support/driver.h"

#include <algorithm>
#include <stdexcept>

namespace perigee {

Request fake_request(int serial, int64_t prompt_tokens, int64_t max_new_tokens) {
  Request request;
  request.id = fmt::format("r{}", serial);
  request.prompt.push_back(FakeModel::kFirstName + serial);
  for (int64_t i = 1; i < prompt_tokens; ++i) request.prompt.push_back(static_cast<int32_t>(i * 7 % 90));
  request.sampling.max_new_tokens = max_new_tokens;
  request.sampling.seed = static_cast<uint64_t>(serial) * 1000003 + 1;
  return request;
}

bool Driver::add(const Request& request, int64_t nan_at) {
  const auto added = scheduler.add(request);
  if (!added) return false;
  model.expect(request, nan_at);
  records_[request.id] = Record{{}, {}, nan_at, request.sampling.max_new_tokens, false, false};
  return true;
}

void Driver::cancel(const std::string& id) {
  const auto found = records_.find(id);
  const bool live = found != records_.end() && !found->second.finish;
  if (live) found->second.cancelled = true;
  if (scheduler.cancel(id, "told to") != live) report(fmt::format("cancel of {} says {}", id, !live));
}

void Driver::check_finish(const std::string& id, const Record& record) {
  const std::vector<int32_t> alone = model.output_alone(id);
  const Finish& finish = *record.finish;
  const bool whole = record.output == alone;
  const bool part =
      record.output.size() <= alone.size() && std::equal(record.output.begin(), record.output.end(), alone.begin());
  if (!part) report(fmt::format("request {}: the text differs from that of the request alone", id));
  if (finish.completion_tokens != static_cast<int64_t>(record.output.size())) {
    report(
        fmt::format("request {}: {} tokens counted, {} delivered", id, finish.completion_tokens, record.output.size()));
  }
  switch (finish.reason) {
    case FinishReason::stop:
      if (!whole || !finish.stop_id || *finish.stop_id != record.output.back()) {
        report(fmt::format("request {} stopped early", id));
      }
      break;
    case FinishReason::length:
      if (!whole || static_cast<int64_t>(alone.size()) != record.max_new || finish.stop_id)
        report(fmt::format("request {} ended early", id));
      break;
    case FinishReason::cancelled:
      if (!record.cancelled || finish.message != "told to") report(fmt::format("request {} was not cancelled", id));
      break;
    case FinishReason::error:
      if (finish.message == "non-finite logits (numerical error)" ? !whole || record.nan_at < 0 : !record.failed_step) {
        report(fmt::format("request {} failed: {}", id, finish.message));
      }
  }
}

void Driver::take(std::vector<Event> events) {
  for (Event& event : events) {
    const auto found = records_.find(event.request_id);
    if (found == records_.end() || found->second.finish) {
      report(fmt::format("an event of {}, which is not live", event.request_id));
      continue;
    }
    Record& record = found->second;
    for (const TokenOutput& token : event.tokens) record.output.push_back(token.id);
    if (!event.finish) {
      if (event.tokens.empty()) report("an event without content");
      continue;
    }
    record.finish = std::move(event.finish);
    check_finish(event.request_id, record);
    model.ended(event.request_id);
  }
}

bool Driver::step(FakeModel::Failure failure, const std::function<void()>& between,
                  const std::function<void(StepPlan&)>& sabotage) {
  auto plan = scheduler.plan();
  take(scheduler.take_events());
  if (!plan) return false;
  if (sabotage) sabotage(*plan);
  model.fail_next(failure);
  try {
    const StepResult result = model.run(*plan);
    if (between) between();
    take(scheduler.commit(result));
  } catch (const std::runtime_error& error) {
    if (between) between();
    for (auto& [id, record] : records_) record.failed_step = record.failed_step || !record.finish;
    take(scheduler.fail(error.what()));
  }
  take(scheduler.take_events());
  const std::string violation = scheduler.check_invariants();
  if (!violation.empty()) report(violation);
  return true;
}

void Driver::drain(int limit) {
  for (int i = 0; !scheduler.idle(); ++i) {
    if (i == limit || !step()) {
      report(fmt::format("{} requests do not end", live().size()));
      return;
    }
  }
  take(scheduler.take_events());
  if (!live().empty()) report(fmt::format("request {} has no finish", live()[0]));
  const SchedulerStats stats = scheduler.stats();
  if (stats.pages_free != stats.pages_total || stats.slots_free != stats.slots_total) {
    report(fmt::format("idle with {} of {} pages and {} of {} slots free", stats.pages_free, stats.pages_total,
                       stats.slots_free, stats.slots_total));
  }
}

std::vector<std::string> Driver::live() const {
  std::vector<std::string> ids;
  for (const auto& [id, record] : records_) {
    if (!record.finish) ids.push_back(id);
  }
  return ids;
}

std::string Driver::problem() const {
  if (!model.faults().empty()) return model.faults()[0];
  return problems_.empty() ? "" : problems_[0];
}

}  // namespace perigee
