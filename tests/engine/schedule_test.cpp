// Random schedules: requests come, are cancelled at any moment, fail, starve for memory and are retracted, over a fake
// model that sees every stale or foreign byte. Whatever the schedule, each text is that of the request alone.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>

#include "base/random.h"
#include "engine/support/driver.h"

namespace perigee {
namespace {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kSanitized = true;
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
constexpr bool kSanitized = true;
#else
constexpr bool kSanitized = false;
#endif
#else
constexpr bool kSanitized = false;
#endif
constexpr int kSchedulesPerTest = kSanitized ? 1000 : 12500;

/// How often the schedules reached what they are for.
struct Coverage {
  int64_t retractions = 0, restarts = 0, cut_chunks = 0, mixed_steps = 0, prefill_pairs = 0;
  int64_t refused = 0, failures = 0, cancels_between = 0, cancels_waiting = 0;
  std::array<int64_t, 4> finishes{};
};

SchedulerOptions random_options(PhiloxStream& random) {
  constexpr std::array<int64_t, 4> kPageSizes = {1, 5, 16, 64};
  SchedulerOptions options;
  options.page_size = kPageSizes[random.next_below(4)];
  options.slots = 1 + static_cast<int64_t>(random.next_below(6));
  options.max_running = 1 + static_cast<int64_t>(random.next_below(static_cast<uint64_t>(options.slots)));
  options.chunk_tokens = 64 * (1 + static_cast<int64_t>(random.next_below(3)));
  options.pages =
      (80 + static_cast<int64_t>(random.next_below(random.next_below(2) == 0 ? 60 : 300))) / options.page_size + 1;
  options.max_queued = static_cast<int64_t>(random.next_below(6));
  options.context_length = 300;
  options.conservativeness = random.next_below(2) == 0 ? 0 : random.next_double();
  return options;
}

Request random_request(PhiloxStream& random, int serial, int64_t& nan_at) {
  const bool is_long = random.next_below(4) == 0;
  const auto prompt = 1 + static_cast<int64_t>(random.next_below(is_long ? 220 : 20));
  Request request = fake_request(serial, prompt, 1 + static_cast<int64_t>(random.next_below(60)));
  if (random.next_below(3) == 0) {
    request.sampling.stop_ids = {3, 50, 77};
    request.sampling.min_new_tokens = static_cast<int64_t>(random.next_below(10));
  }
  nan_at = random.next_below(12) == 0 ? static_cast<int64_t>(random.next_below(10)) : -1;
  // The row that would be the last one's successor never runs.
  if (nan_at >= request.sampling.max_new_tokens) nan_at = -1;
  return request;
}

/// One schedule; the first problem, empty when all is well.
std::string run_schedule(uint64_t seed, Coverage& coverage) {
  PhiloxStream random(seed);
  Driver driver(random_options(random));
  const int requests = 1 + static_cast<int>(random.next_below(10));
  const bool quiet = random.next_below(4) == 0;  // no cancels, no failures
  const auto cancel_one = [&] {
    const auto live = driver.live();
    if (!live.empty()) driver.cancel(live[random.next_below(live.size())]);
  };
  int serial = 0;
  while (serial < requests && driver.problem().empty()) {
    while (serial < requests && random.next_below(2) == 0) {
      int64_t nan_at = -1;
      const Request request = random_request(random, serial++, nan_at);
      coverage.refused += driver.add(request, nan_at) ? 0 : 1;
    }
    if (!quiet && random.next_below(12) == 0) {
      cancel_one();
      ++coverage.cancels_waiting;
    }
    FakeModel::Failure failure = FakeModel::Failure::none;
    if (!quiet && random.next_below(30) == 0) {
      failure = random.next_below(2) == 0 ? FakeModel::Failure::before_work : FakeModel::Failure::half_way;
      ++coverage.failures;
    }
    const bool cancel_between = !quiet && random.next_below(10) == 0;
    driver.step(failure, [&] {
      if (!cancel_between) return;
      cancel_one();
      ++coverage.cancels_between;
    });
  }
  if (driver.problem().empty()) driver.drain();
  coverage.retractions += driver.scheduler.stats().retractions;
  coverage.restarts += driver.model.restarts;
  coverage.cut_chunks += driver.model.cut_chunks;
  coverage.mixed_steps += driver.model.mixed_steps;
  coverage.prefill_pairs += driver.model.prefill_pairs;
  for (int i = 0; i < serial; ++i) {
    const Driver::Record* record = driver.find(fmt::format("r{}", i));
    if (record != nullptr && record->finish) ++coverage.finishes[static_cast<size_t>(record->finish->reason)];
  }
  return driver.problem();
}

class Schedules : public testing::TestWithParam<int> {};

TEST_P(Schedules, TextsAreThoseOfTheRequestAlone) {
  Coverage coverage;
  const auto first = static_cast<uint64_t>(GetParam()) * kSchedulesPerTest;
  for (uint64_t seed = first; seed < first + kSchedulesPerTest; ++seed) {
    ASSERT_EQ(run_schedule(seed, coverage), "") << "schedule " << seed;
  }
  // The schedules must have met what they are for.
  EXPECT_GT(coverage.retractions, kSchedulesPerTest / 25);
  EXPECT_GT(coverage.restarts, kSchedulesPerTest / 25);
  EXPECT_GT(coverage.cut_chunks, kSchedulesPerTest / 25);
  EXPECT_GT(coverage.mixed_steps, kSchedulesPerTest / 25);
  EXPECT_GT(coverage.prefill_pairs, kSchedulesPerTest / 25);
  EXPECT_GT(coverage.refused, kSchedulesPerTest / 25);
  EXPECT_GT(coverage.failures, kSchedulesPerTest / 25);
  EXPECT_GT(coverage.cancels_between, kSchedulesPerTest / 25);
  EXPECT_GT(coverage.cancels_waiting, kSchedulesPerTest / 25);
  for (const int64_t count : coverage.finishes) EXPECT_GT(count, kSchedulesPerTest / 25);
}

INSTANTIATE_TEST_SUITE_P(Seeds, Schedules, testing::Range(0, 8));

/// What a broken scheduler or worker would do to a plan.
struct Sabotage {
  const char* name;
  bool (*apply)(StepPlan&);  ///< true once it changed something
};

bool read_stale_slot(StepPlan& plan) {
  for (Segment& s : plan.segments) {
    if (s.position == 0) return s.source_slot = s.slot, true;
  }
  return false;
}
bool forget_state(StepPlan& plan) {
  for (Segment& s : plan.segments) {
    if (s.position > 0) return s.source_slot = -1, true;
  }
  return false;
}
bool swap_slots(StepPlan& plan) {
  if (plan.segments.size() < 2 || plan.segments[0].position == 0 || plan.segments[1].position == 0) return false;
  std::swap(plan.segments[0].slot, plan.segments[1].slot);
  plan.segments[0].source_slot = plan.segments[0].slot;
  plan.segments[1].source_slot = plan.segments[1].slot;
  return true;
}
bool share_slot(StepPlan& plan) {
  if (plan.segments.size() < 2) return false;
  plan.segments[1].slot = plan.segments[0].slot;
  return true;
}
bool swap_pages(StepPlan& plan) {
  for (const Segment& s : plan.segments) {
    if (s.position < 33 || s.page_count < 3) continue;
    std::swap(plan.pages[static_cast<size_t>(s.page_begin) + 1], plan.pages[static_cast<size_t>(s.page_begin) + 2]);
    return true;
  }
  return false;
}
bool skip_token(StepPlan& plan) {
  for (Segment& s : plan.segments) {
    if (s.position > 0) return ++s.position, true;
  }
  return false;
}

class Sabotaged : public testing::TestWithParam<Sabotage> {};

TEST_P(Sabotaged, HarnessSeesIt) {
  SchedulerOptions options;
  options.page_size = 16;
  options.pages = 64;
  options.slots = options.max_running = 4;
  options.max_queued = 4;
  options.chunk_tokens = 64;
  options.context_length = 300;
  Driver driver(options);
  for (int i = 0; i < 4; ++i) ASSERT_TRUE(driver.add(fake_request(i, 30 + i, 20)));
  bool done = false;
  for (int i = 0; i < 20 && !done; ++i) {
    ASSERT_EQ(driver.problem(), "");
    driver.step(FakeModel::Failure::none, {}, [&](StepPlan& plan) { done = GetParam().apply(plan); });
  }
  ASSERT_TRUE(done) << "the schedule never offered the chance";
  // A foreign write shows at the next read.
  if (driver.problem().empty()) driver.step();
  EXPECT_NE(driver.problem(), "");
}

INSTANTIATE_TEST_SUITE_P(Plans, Sabotaged,
                         testing::Values(Sabotage{"stale_slot", read_stale_slot},
                                         Sabotage{"forgotten_state", forget_state},
                                         Sabotage{"swapped_slots", swap_slots}, Sabotage{"shared_slot", share_slot},
                                         Sabotage{"swapped_pages", swap_pages}, Sabotage{"skipped_token", skip_token}),
                         [](const auto& test) { return test.param.name; });

}  // namespace
}  // namespace perigee
