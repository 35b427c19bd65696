// Scheduler: pure logic. Which sequences run in the next step, with which pages and slots. No model, no threads, no
// clock but the injected one, so that a fake model can drive it through any schedule.
//
// Owns every live sequence (one map is the only truth: cancel, drain and metrics iterate it) and the pools. Engine
// thread only. Policy today: first come first served; decode rows first, then prefill chunks under the token budget; a
// cut chunk ends on the KDA chunk grid, so that chunked prefill is bit for bit whole prefill; when decode needs a page
// and there is none, the youngest sequence is retracted (its tokens are prefilled again later).
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "cache/pools.h"
#include "engine/plan.h"
#include "engine/request.h"

namespace perigee {

struct SchedulerOptions {
  int64_t page_size = 64;
  int64_t pages = 0;           ///< KvPool size
  int64_t slots = 0;           ///< StatePool size
  int64_t max_running = 0;     ///< sequences holding a slot; <= slots and <= chunk_tokens
  int64_t max_queued = 0;      ///< live requests beyond max_running; more are refused
  int64_t chunk_tokens = 512;  ///< rows of a step (decode rows count); a multiple of kKdaChunk
  int64_t context_length = 0;  ///< prompt + output of one request
  uint64_t seed = 0;           ///< base of the seeds of requests that bring none
  /// Scales the share of the output still to come that admission keeps pages for: 0 admits whatever fits now and
  /// retracts often, large values admit only what cannot need a retraction.
  double conservativeness = 1.0;
};

/// Why add() refused.
struct Rejection {
  enum class Kind : uint8_t { queue_full, too_long, duplicate_id } kind;
  std::string message;
};

/// Why `request` could never run under `options`, however empty the server: its prompt and output exceed the context or
/// the pool.
std::optional<Rejection> check_fits(const SchedulerOptions& options, const Request& request);

/// What a step did to one request.
struct Event {
  std::string request_id;
  std::vector<TokenOutput> tokens;
  std::optional<Finish> finish;  ///< set once; the request is gone afterwards
};

/// Numbers for metrics and /server_info.
struct SchedulerStats {
  int64_t running = 0, queued = 0;
  int64_t pages_total = 0, pages_free = 0, slots_total = 0, slots_free = 0;
  int64_t retractions = 0;    ///< since start
  int64_t prompt_tokens = 0;  ///< prefilled since start (recomputed ones included)
  int64_t generated_tokens = 0;
  double oldest_queued_seconds = 0;  ///< how long the head of the queue has waited
};

class Scheduler {
 public:
  /// Throws std::runtime_error when the options contradict each other. `clock` must outlive the Scheduler.
  Scheduler(SchedulerOptions options, const Clock& clock);
  ~Scheduler();

  Result<void, Rejection> add(Request request);
  /// The request ends with FinishReason::cancelled: with the commit of the outstanding step when it is part of it (what
  /// the step gave it is dropped), else at once (see take_events). False when the id is unknown.
  bool cancel(const std::string& id, std::string reason = "cancelled");

  /// The next step, or nothing when nothing can run. A plan must be committed or failed before the next plan.
  std::optional<StepPlan> plan();
  std::vector<Event> commit(const StepResult& result);
  /// The step of the last plan failed: its requests end with an error, everything they held is free.
  std::vector<Event> fail(const std::string& reason);
  /// Events that need no step: requests cancelled while in none. Call after plan() returned nothing too.
  std::vector<Event> take_events();

  bool idle() const;  ///< no live request
  SchedulerStats stats() const;
  /// Recounts pools from the sequences; the text of the first violation, empty when all is well. O(live pages).
  std::string check_invariants() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace perigee
