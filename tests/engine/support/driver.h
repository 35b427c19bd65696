// Driver: a Scheduler over a FakeModel, step by step, with every promise of the contract checked on the way: one finish
// per request, texts equal to those of the request alone, invariants after every step, pools at the baseline when idle.
// What is wrong is collected in problems().
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "engine/support/fake_model.h"

namespace perigee {

/// A request for the fake model; `serial` names it. Seeded, no stop ids.
Request fake_request(int serial, int64_t prompt_tokens, int64_t max_new_tokens);

class Driver {
 public:
  struct Record {
    std::vector<int32_t> output;
    std::optional<Finish> finish;
    int64_t nan_at = -1;
    int64_t max_new = 0;
    bool cancelled = false;  ///< asked for
    bool failed_step = false;
  };

  explicit Driver(const SchedulerOptions& options) : options_(options), model(options), scheduler(options, clock) {}

  /// False when the scheduler refused it.
  bool add(const Request& request, int64_t nan_at = -1);
  void cancel(const std::string& id);
  /// Plan, run, commit or fail. `between` is called while the step is out; `sabotage` may change what the model sees.
  /// False when there was nothing to run.
  bool step(FakeModel::Failure failure = FakeModel::Failure::none, const std::function<void()>& between = {},
            const std::function<void(StepPlan&)>& sabotage = {});
  /// Steps until nothing is live; the pools must be full again. A problem when it takes more than `limit` steps.
  void drain(int limit = 5000);

  const Record& record(const std::string& id) const { return records_.at(id); }
  /// Null when the request was refused.
  const Record* find(const std::string& id) const {
    const auto found = records_.find(id);
    return found == records_.end() ? nullptr : &found->second;
  }
  std::vector<std::string> live() const;  ///< ids without a finish
  /// The first problem, empty when all is well.
  std::string problem() const;

 private:
  void take(std::vector<Event> events);
  void check_finish(const std::string& id, const Record& record);
  void report(std::string sentence) { problems_.push_back(std::move(sentence)); }

  SchedulerOptions options_;
  ManualClock clock;
  std::map<std::string, Record> records_;
  std::vector<std::string> problems_;

 public:
  FakeModel model;
  Scheduler scheduler;
};

}  // namespace perigee
