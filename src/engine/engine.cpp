// The engine thread and its mailbox. See engine.h for the contract.
//
// Callers leave mail under the mutex; the engine thread alone touches the Scheduler, the runner and the sinks, and
// calls sinks outside the mutex. The queue is bounded at the door: submit counts every live request, so the mailbox and
// the Scheduler together never hold more than max_running + max_queued.
#include "engine/engine.h"

#include <array>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <thread>
#include <unordered_map>

#include "base/log.h"

namespace perigee {
namespace {

/// Failed steps in a row that make the engine unhealthy.
constexpr int kUnhealthyAfter = 3;
/// How long the thread waits for mail when the Scheduler has sequences and no step for them, which must not happen.
constexpr std::chrono::milliseconds kStallWait{100};

/// Tokens per second over the last kSeconds, in buckets.
class TokenRate {
 public:
  void add(TimePoint now, int64_t tokens) {
    Bucket& bucket = at(tick(now));
    bucket.tokens += tokens;
  }
  double rate(TimePoint now) const {
    const int64_t end = tick(now);
    int64_t tokens = 0;
    for (const Bucket& bucket : buckets_) {
      if (bucket.tick > end - kBuckets && bucket.tick <= end) tokens += bucket.tokens;
    }
    return static_cast<double>(tokens) / kSeconds;
  }

 private:
  static constexpr double kSeconds = 5;
  static constexpr int64_t kBuckets = 20;
  struct Bucket {
    int64_t tick = -kBuckets;
    int64_t tokens = 0;
  };
  static int64_t tick(TimePoint now) {
    return static_cast<int64_t>(seconds(now.time_since_epoch()) * (kBuckets / kSeconds));
  }
  Bucket& at(int64_t tick) {
    Bucket& bucket = buckets_[static_cast<size_t>(tick % kBuckets)];
    if (bucket.tick != tick) bucket = {tick, 0};
    return bucket;
  }
  std::array<Bucket, kBuckets> buckets_;
};

/// What a caller left for the engine thread: a request with its sink, or the wish to cancel `id`.
struct Mail {
  std::string id;
  std::optional<Request> request;
  std::shared_ptr<Sink> sink;
  std::string reason;
};

}  // namespace

struct Engine::State {
  State(std::unique_ptr<StepRunner> chosen, const SchedulerOptions& limits, std::shared_ptr<const Clock> time,
        int64_t interval)
      : options(limits),
        clock(std::move(time)),
        check_interval(interval),
        runner(std::move(chosen)),
        scheduler(limits, *clock) {}

  const SchedulerOptions options;
  const std::shared_ptr<const Clock> clock;
  const int64_t check_interval;

  // The engine thread's own.
  std::unique_ptr<StepRunner> runner;
  Scheduler scheduler;
  std::unordered_map<std::string, std::shared_ptr<Sink>> sinks;
  int failures_in_a_row = 0;

  // Under the mutex.
  mutable std::mutex mutex;
  std::condition_variable mail_came;
  std::condition_variable request_ended;
  std::vector<Mail> mail;
  std::unordered_map<std::string, bool> live;  ///< accepted ids; true once their cancellation is in the mail
  int64_t unfinished = 0;                      ///< accepted requests whose on_finish has not returned
  bool stopping = false;
  EngineStats stats;
  TokenRate rate;
  TimePoint last_progress{};

  std::thread thread;

  void loop();
  bool wait_for_work(bool stalled);
  void read_mail();
  bool step();
  std::vector<Event> run(const StepPlan& plan);
  void check();
  void deliver(std::vector<Event> events);
  void publish(const std::vector<Event>& events, Duration step_time);
  void count(FinishReason reason);
};

void Engine::State::loop() {
  bool stalled = false;
  while (wait_for_work(stalled)) {
    read_mail();
    const bool stuck = !step() && !scheduler.idle();
    if (stuck && !stalled) log_error("the scheduler has requests and no step for them");
    stalled = stuck;
  }
  read_mail();
  for (const auto& [id, sink] : sinks) scheduler.cancel(id, "the server is shutting down");
  deliver(scheduler.take_events());
}

/// False when the engine is to stop.
bool Engine::State::wait_for_work(bool stalled) {
  std::unique_lock lock(mutex);
  const auto wanted = [this] { return stopping || !mail.empty(); };
  if (scheduler.idle()) {
    mail_came.wait(lock, wanted);
  } else if (stalled) {
    mail_came.wait_for(lock, kStallWait, wanted);
  }
  return !stopping;
}

void Engine::State::read_mail() {
  std::vector<Mail> letters;
  {
    const std::lock_guard lock(mutex);
    letters.swap(mail);
  }
  for (Mail& letter : letters) {
    if (!letter.request) {
      scheduler.cancel(letter.id, std::move(letter.reason));
      continue;
    }
    sinks[letter.id] = std::move(letter.sink);
    const auto prompt = static_cast<int64_t>(letter.request->prompt.size());
    const auto added = scheduler.add(std::move(*letter.request));
    if (added) continue;
    // submit checks the same limits, so this is not expected; the sink's one on_finish is due all the same.
    Event refused{letter.id, {}, Finish{}};
    refused.finish->reason = FinishReason::error;
    refused.finish->message = added.error().message;
    refused.finish->prompt_tokens = prompt;
    deliver({std::move(refused)});
  }
}

/// False when there was nothing to run.
bool Engine::State::step() {
  const std::optional<StepPlan> plan = scheduler.plan();
  std::vector<Event> waiting = scheduler.take_events();
  publish(waiting, Duration::zero());
  deliver(std::move(waiting));
  if (!plan) return false;
  const TimePoint begin = clock->now();
  std::vector<Event> events = run(*plan);
  publish(events, std::max(clock->now() - begin, Duration(1)));
  deliver(std::move(events));
  check();
  return true;
}

std::vector<Event> Engine::State::run(const StepPlan& plan) {
  StepResult result;
  try {
    result = runner->run(plan);
  } catch (const std::exception& error) {
    ++failures_in_a_row;
    log_error("step {} failed: {}", plan.epoch, error.what());
    return scheduler.fail(fmt::format("the step failed on the device: {}", error.what()));
  }
  failures_in_a_row = 0;
  return scheduler.commit(result);
}

void Engine::State::check() {
  if (check_interval <= 0 || stats.steps % static_cast<uint64_t>(check_interval) != 0) return;
  const std::string violation = scheduler.check_invariants();
  if (violation.empty()) return;
  log_error("invariant violated after step {}: {}", stats.steps, violation);
  const std::lock_guard lock(mutex);
  ++stats.violations;
}

/// Numbers for stats(); before the sinks hear of the events, so that whoever has an answer finds it counted.
void Engine::State::publish(const std::vector<Event>& events, Duration step_time) {
  const TimePoint now = clock->now();
  const SchedulerStats scheduled = scheduler.stats();
  const std::lock_guard lock(mutex);
  stats.scheduler = scheduled;
  stats.healthy = failures_in_a_row < kUnhealthyAfter;
  for (const Event& event : events) {
    if (event.finish) count(event.finish->reason);
    rate.add(now, static_cast<int64_t>(event.tokens.size()));
  }
  if (step_time == Duration::zero()) return;
  last_progress = now;
  ++stats.steps;
  stats.last_step_seconds = seconds(step_time);
  stats.step_seconds_total += stats.last_step_seconds;
}

void Engine::State::count(FinishReason reason) {
  switch (reason) {
    case FinishReason::stop:
    case FinishReason::length:
      ++stats.finished;
      break;
    case FinishReason::cancelled:
      ++stats.cancelled;
      break;
    case FinishReason::error:
      ++stats.failed;
  }
}

void Engine::State::deliver(std::vector<Event> events) {
  for (const Event& event : events) {
    const auto found = sinks.find(event.request_id);
    PERIGEE_CHECK(found != sinks.end(), "request {} has no sink", event.request_id);
    if (!event.tokens.empty()) found->second->on_tokens(event.tokens);
    if (!event.finish) continue;
    const std::shared_ptr<Sink> sink = std::move(found->second);
    sinks.erase(found);
    {
      // The id is free before its owner hears of the end, who may use it again at once.
      const std::lock_guard lock(mutex);
      live.erase(event.request_id);
    }
    sink->on_finish(*event.finish);
    {
      const std::lock_guard lock(mutex);
      --unfinished;
    }
    request_ended.notify_all();
  }
}

Engine::Engine(std::unique_ptr<StepRunner> runner, SchedulerOptions options, std::shared_ptr<const Clock> clock,
               int64_t check_interval)
    : state_(std::make_unique<State>(std::move(runner), options, std::move(clock), check_interval)) {
  state_->stats.scheduler = state_->scheduler.stats();
  state_->thread = std::thread([state = state_.get()] { state->loop(); });
}

Engine::~Engine() {
  {
    const std::lock_guard lock(state_->mutex);
    state_->stopping = true;
  }
  state_->mail_came.notify_one();
  state_->thread.join();
}

Result<void, SubmitError> Engine::submit(Request request, std::shared_ptr<Sink> sink) {
  using Kind = SubmitError::Kind;
  State& s = *state_;
  if (auto rejection = check_fits(s.options, request)) return SubmitError{Kind::too_long, rejection->message};
  {
    const std::lock_guard lock(s.mutex);
    if (s.stopping || s.stats.draining) return SubmitError{Kind::draining, "The server is shutting down."};
    // One request at a time is let through to find out whether the device has recovered.
    if (!s.stats.healthy && !s.live.empty()) {
      return SubmitError{Kind::device_failed, "The device failed in several steps in a row."};
    }
    if (s.live.contains(request.id)) {
      return SubmitError{Kind::duplicate_id, fmt::format("The request id \"{}\" is in use.", request.id)};
    }
    if (static_cast<int64_t>(s.live.size()) >= s.options.max_running + s.options.max_queued) {
      return SubmitError{Kind::queue_full, fmt::format("The server is full: {} requests may run and {} may wait.",
                                                       s.options.max_running, s.options.max_queued)};
    }
    if (s.live.empty()) s.last_progress = s.clock->now();
    s.live.emplace(request.id, false);
    ++s.unfinished;
    Mail letter;
    letter.id = request.id;
    letter.request = std::move(request);
    letter.sink = std::move(sink);
    s.mail.push_back(std::move(letter));
  }
  s.mail_came.notify_one();
  return {};
}

void Engine::cancel(const std::string& id, const std::string& reason) {
  State& s = *state_;
  {
    const std::lock_guard lock(s.mutex);
    const auto found = s.live.find(id);
    if (found == s.live.end() || std::exchange(found->second, true)) return;
    s.mail.push_back({id, std::nullopt, nullptr, reason});
  }
  s.mail_came.notify_one();
}

void Engine::cancel_all(const std::string& reason) {
  State& s = *state_;
  {
    const std::lock_guard lock(s.mutex);
    for (auto& [id, cancelling] : s.live) {
      if (!std::exchange(cancelling, true)) s.mail.push_back({id, std::nullopt, nullptr, reason});
    }
  }
  s.mail_came.notify_one();
}

bool Engine::drain(Duration timeout) {
  State& s = *state_;
  std::unique_lock lock(s.mutex);
  s.stats.draining = true;
  return s.request_ended.wait_for(lock, timeout, [&s] { return s.unfinished == 0; });
}

EngineStats Engine::stats() const {
  const State& s = *state_;
  const TimePoint now = s.clock->now();
  const std::lock_guard lock(s.mutex);
  EngineStats stats = s.stats;
  for (const Mail& letter : s.mail) stats.scheduler.queued += letter.request ? 1 : 0;
  stats.tokens_per_second = s.rate.rate(now);
  stats.seconds_since_step = s.live.empty() ? 0 : std::max(0.0, seconds(now - s.last_progress));
  return stats;
}

}  // namespace perigee
