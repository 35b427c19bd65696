// Engine: the only header api/ sees of the machine room. One thread runs plan -> step -> commit and calls the Sinks.
//
// submit, cancel and stats are thread-safe and return at once. Created and destroyed by apps/.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "engine/plan.h"
#include "engine/request.h"
#include "engine/scheduler.h"

namespace perigee {

/// Why submit refused: queue_full, draining and device_failed are the server's (503), the others the caller's (400).
struct SubmitError {
  enum class Kind : uint8_t { queue_full, draining, too_long, duplicate_id, device_failed } kind;
  std::string message;
};

struct EngineStats {
  SchedulerStats scheduler;
  uint64_t steps = 0;
  double last_step_seconds = 0;
  double step_seconds_total = 0;
  double tokens_per_second = 0;  ///< generated, over the last few seconds
  int64_t finished = 0, cancelled = 0, failed = 0;
  int64_t violations = 0;  ///< failed invariant checks
  bool healthy = true;     ///< false after repeated device failures, until a step succeeds again
  bool draining = false;
  double seconds_since_step = 0;  ///< 0 while idle
};

class Engine {
 public:
  /// `runner` is used on the engine thread only. Invariants are checked after every `check_interval` steps (0 = never);
  /// a violation is logged and counted, never fatal.
  Engine(std::unique_ptr<StepRunner> runner, SchedulerOptions options, std::shared_ptr<const Clock> clock,
         int64_t check_interval = 0);
  /// Cancels what is left and joins the thread.
  ~Engine();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  /// Queues a request, or refuses it: see SubmitError. While unhealthy one request at a time is accepted. The sink gets
  /// exactly one on_finish for every accepted request, also after cancel or destruction.
  Result<void, SubmitError> submit(Request request, std::shared_ptr<Sink> sink);
  /// Frees the request within one step; its sink gets on_finish(cancelled). Unknown ids are ignored (it just ended).
  void cancel(const std::string& id, const std::string& reason);
  /// Every live request (abort_all).
  void cancel_all(const std::string& reason);

  /// Refuses new requests from now on. True when all live ones ended within `timeout`.
  bool drain(Duration timeout);
  EngineStats stats() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace perigee
