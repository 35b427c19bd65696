// FakeModel: a StepRunner without a model that makes every corruption of the caches visible.
//
// The state of a slot is a rolling hash of every (token, position) it absorbed; an entry of a page is tagged with its
// owner and the hash of the prefix that ends there. Each step checks what it reads against the hash of the request's
// own prefix, known from the request alone, before it writes. The next token is a function of the prefix hash, the
// seed and the position, so the text of a request alone is known beforehand. Faults are collected as sentences.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "engine/plan.h"
#include "engine/scheduler.h"

namespace perigee {

class FakeModel final : public StepRunner {
 public:
  /// First tokens of prompts from here on name the request; sampled tokens lie below kVocab.
  static constexpr int32_t kFirstName = 1000;
  static constexpr int32_t kVocab = 100;

  /// When run() throws, if at all.
  enum class Failure { none, before_work, half_way };

  explicit FakeModel(const SchedulerOptions& options);

  /// Announces a request before it is added; its prompt[0] must be unique and >= kFirstName. `nan_at`: the output token
  /// whose logits are not finite, -1 for none. The seed must be set.
  void expect(const Request& request, int64_t nan_at = -1);
  /// The request ended: poisons what it held.
  void ended(const std::string& id);
  /// The whole output of the request run alone (up to a stop id, its length, or the non-finite row).
  std::vector<int32_t> output_alone(const std::string& id) const;

  StepResult run(const StepPlan& plan) override;

  void fail_next(Failure failure) { failure_ = failure; }
  const std::vector<std::string>& faults() const { return faults_; }

  int64_t cut_chunks = 0;     ///< chunks that ended inside a prompt
  int64_t mixed_steps = 0;    ///< steps with decode rows and chunks
  int64_t prefill_pairs = 0;  ///< steps with chunks of several sequences
  int64_t restarts = 0;       ///< first chunks of sequences that had begun before

 private:
  struct Truth {
    std::string id;
    std::vector<int32_t> tokens;   ///< prompt and whole output
    std::vector<uint64_t> prefix;  ///< prefix[i]: hash of the first i tokens
    int64_t prompt_size = 0;
    int64_t nan_at = -1;
    uint64_t seed = 0;
    SamplingParams sampling;
    std::vector<int32_t> pages;  ///< last seen in a step
    int32_t slot = -1;
    bool live = true;
  };
  struct Entry {
    int32_t owner = -1;
    uint64_t prefix = 0;
  };

  void fault(std::string sentence);
  void check_shape(const StepPlan& plan);
  void zero(const StepPlan& plan);
  Truth* owner_of(const StepPlan& plan, const Segment& segment);
  void check_reads(const Segment& segment, const Truth& truth, std::span<const int32_t> pages);
  void absorb(const StepPlan& plan, const Segment& segment, Truth& truth, std::span<const int32_t> pages);
  SampledToken draw(const SampleRow& row, const Truth& truth);
  Entry& entry(int32_t page, int64_t offset) { return kv_[static_cast<size_t>(page * options_.page_size + offset)]; }

  SchedulerOptions options_;
  std::map<int32_t, Truth> truths_;  ///< by first token
  std::vector<uint64_t> states_;
  std::vector<Entry> kv_;
  std::vector<bool> bad_pages_, bad_slots_;  ///< hold non-finite values
  Failure failure_ = Failure::none;
  uint64_t last_epoch_ = 0;
  std::vector<std::string> faults_;
};

}  // namespace perigee
