// Scheduler: scripted cases over the fake model, each for one promise of the contract.
#include <gtest/gtest.h>

#include <stdexcept>

#include "engine/support/driver.h"

namespace perigee {
namespace {

SchedulerOptions roomy() {
  SchedulerOptions options;
  options.page_size = 16;
  options.pages = 400;
  options.slots = options.max_running = 4;
  options.max_queued = 16;
  options.chunk_tokens = 128;
  options.context_length = 2000;
  return options;
}

FinishReason reason_of(const Driver& driver, int serial) {
  const auto& finish = driver.record(fmt::format("r{}", serial)).finish;
  EXPECT_TRUE(finish.has_value());
  return finish ? finish->reason : FinishReason::error;
}

TEST(Scheduler, DecodeRowsComeFirstThenChunksInOrder) {
  Driver driver(roomy());
  driver.add(fake_request(0, 10, 50));
  driver.step();
  driver.add(fake_request(1, 300, 5));
  driver.add(fake_request(2, 40, 5));
  const auto plan_shape = [&] {
    std::vector<std::pair<int32_t, int32_t>> shape;
    driver.step(FakeModel::Failure::none, {}, [&](const StepPlan& plan) {
      for (const Segment& s : plan.segments) shape.emplace_back(s.position, s.row_count);
    });
    return shape;
  };
  using Shape = std::vector<std::pair<int32_t, int32_t>>;
  EXPECT_EQ(plan_shape(), (Shape{{10, 1}, {0, 64}, {0, 40}}))
      << "cut on the grid; the rest of the rows serves the next";
  EXPECT_EQ(plan_shape(), (Shape{{11, 1}, {40, 1}, {64, 64}}));
  EXPECT_EQ(plan_shape(), (Shape{{12, 1}, {41, 1}, {128, 64}}));
  EXPECT_EQ(plan_shape(), (Shape{{13, 1}, {42, 1}, {192, 108}})) << "the last chunk ends anywhere";
  EXPECT_EQ(plan_shape(), (Shape{{14, 1}, {300, 1}, {43, 1}})) << "decode rows in order of arrival";
  driver.drain();
  EXPECT_EQ(driver.problem(), "");
}

TEST(Scheduler, RunsNoMoreThanMaxRunning) {
  SchedulerOptions options = roomy();
  options.slots = 4;
  options.max_running = 2;
  Driver driver(options);
  for (int i = 0; i < 6; ++i) driver.add(fake_request(i, 5, 6));
  while (!driver.scheduler.idle()) {
    driver.step();
    EXPECT_LE(driver.scheduler.stats().running, 2);
  }
  EXPECT_EQ(driver.problem(), "");
}

TEST(Scheduler, FinishesByStopIdAndByLength) {
  Driver driver(roomy());
  Request stops = fake_request(0, 5, 200);
  stops.sampling.stop_ids = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10};
  driver.add(stops);
  driver.add(fake_request(1, 5, 7));
  driver.drain();
  EXPECT_EQ(reason_of(driver, 0), FinishReason::stop);
  EXPECT_EQ(driver.record("r0").finish->stop_id, driver.record("r0").output.back());
  EXPECT_EQ(reason_of(driver, 1), FinishReason::length);
  EXPECT_EQ(driver.record("r1").finish->completion_tokens, 7);
  EXPECT_EQ(driver.record("r1").finish->prompt_tokens, 5);
  EXPECT_EQ(driver.problem(), "");
}

TEST(Scheduler, RefusesWhatCanNeverFitAndNamesTheNumbers) {
  SchedulerOptions options = roomy();
  options.pages = 10;
  options.context_length = 200;
  ManualClock clock;
  Scheduler scheduler(options, clock);
  const auto by_context = scheduler.add(fake_request(0, 150, 60));
  ASSERT_FALSE(by_context);
  EXPECT_EQ(by_context.error().kind, Rejection::Kind::too_long);
  EXPECT_EQ(by_context.error().message,
            "The prompt has 150 tokens and up to 60 new tokens were asked for, but the context length is 200 tokens.");
  const auto by_pages = scheduler.add(fake_request(1, 150, 20));
  ASSERT_FALSE(by_pages);
  EXPECT_EQ(by_pages.error().kind, Rejection::Kind::too_long);
  EXPECT_NE(by_pages.error().message.find("they need 11 cache pages, but the server has 10"), std::string::npos);
  EXPECT_TRUE(scheduler.add(fake_request(2, 150, 10)));
  Request huge = fake_request(3, 1, INT64_MAX);
  EXPECT_FALSE(scheduler.add(huge));
}

TEST(Scheduler, RefusesDuplicatesAndAFullQueue) {
  SchedulerOptions options = roomy();
  options.max_running = 1;
  options.max_queued = 2;
  ManualClock clock;
  Scheduler scheduler(options, clock);
  ASSERT_TRUE(scheduler.add(fake_request(0, 5, 5)));
  const auto twice = scheduler.add(fake_request(0, 5, 5));
  ASSERT_FALSE(twice);
  EXPECT_EQ(twice.error().kind, Rejection::Kind::duplicate_id);
  ASSERT_TRUE(scheduler.add(fake_request(1, 5, 5)));
  ASSERT_TRUE(scheduler.add(fake_request(2, 5, 5)));
  const auto full = scheduler.add(fake_request(3, 5, 5));
  ASSERT_FALSE(full);
  EXPECT_EQ(full.error().kind, Rejection::Kind::queue_full);
  EXPECT_TRUE(scheduler.cancel("r1"));
  EXPECT_TRUE(scheduler.add(fake_request(3, 5, 5))) << "the place is free again";
}

TEST(Scheduler, RefusesContradictoryOptions) {
  ManualClock clock;
  const auto construct = [&](auto change) {
    SchedulerOptions options = roomy();
    change(options);
    Scheduler scheduler(options, clock);
  };
  EXPECT_THROW(construct([](auto& o) { o.chunk_tokens = 100; }), std::runtime_error);
  EXPECT_THROW(construct([](auto& o) { o.max_running = 5; }), std::runtime_error);
  EXPECT_THROW(construct([](auto& o) { o.max_running = o.slots = 129; }), std::runtime_error);
  EXPECT_THROW(construct([](auto& o) { o.pages = 0; }), std::runtime_error);
  EXPECT_NO_THROW(construct([](auto&) {}));
}

// Abort must reach a request wherever it is; "between two batches" is no place to hide.
TEST(Scheduler, AbortAtEveryPhase) {
  for (int phase = 0; phase < 7; ++phase) {
    SchedulerOptions options = roomy();
    options.max_running = 2;
    Driver driver(options);
    driver.add(fake_request(0, 20, 30));  // a bystander, which must not notice
    const bool queued = phase == 0 || phase == 6;
    if (queued) driver.add(fake_request(9, 20, 30));
    if (phase != 0) driver.step();
    driver.add(fake_request(1, 300, 30));
    const auto abort = [&] { driver.cancel("r1"); };
    switch (phase) {
      case 0:  // added, no plan made yet
        abort();
        break;
      case 1:  // its first chunk is in the step that is out
        driver.step(FakeModel::Failure::none, abort);
        break;
      case 2:  // between two chunks
        driver.step();
        abort();
        break;
      case 3:  // its last chunk is out
        for (int i = 0; i < 3; ++i) driver.step();
        driver.step(FakeModel::Failure::none, abort);
        break;
      case 4:  // decoding, between two steps
        for (int i = 0; i < 8; ++i) driver.step();
        abort();
        break;
      case 5:  // decoding, in the step that is out
        for (int i = 0; i < 8; ++i) driver.step();
        driver.step(FakeModel::Failure::none, abort);
        break;
      default:  // waiting for a slot while a step is out
        driver.step(FakeModel::Failure::none, abort);
        break;
    }
    driver.step();
    ASSERT_TRUE(driver.record("r1").finish.has_value()) << "phase " << phase;
    EXPECT_EQ(reason_of(driver, 1), FinishReason::cancelled);
    EXPECT_EQ(driver.record("r1").output.empty(), phase != 4 && phase != 5) << "phase " << phase;
    driver.cancel("r1");  // says that it is unknown now
    driver.drain();
    EXPECT_EQ(reason_of(driver, 0), FinishReason::length);
    EXPECT_EQ(driver.problem(), "") << "phase " << phase;
  }
}

TEST(Scheduler, CancelledInAFailedStepCountsAsCancelled) {
  Driver driver(roomy());
  driver.add(fake_request(0, 20, 30));
  driver.step(FakeModel::Failure::before_work, [&] { driver.cancel("r0"); });
  EXPECT_EQ(reason_of(driver, 0), FinishReason::cancelled);
  driver.drain();
  EXPECT_EQ(driver.problem(), "");
}

// A state slot must not leak when admission fails for want of pages.
TEST(Scheduler, FailedAdmissionLeaksNoSlot) {
  SchedulerOptions options = roomy();
  options.pages = 10;
  options.conservativeness = 0;
  Driver driver(options);
  driver.add(fake_request(0, 100, 30));  // 7 pages now
  driver.add(fake_request(1, 100, 30));  // does not fit beside it
  driver.step();
  for (int i = 0; i < 25; ++i) {
    driver.step();
    EXPECT_EQ(driver.scheduler.stats().slots_free, 3);
    EXPECT_EQ(driver.scheduler.stats().queued, 1);
  }
  driver.drain();
  EXPECT_EQ(driver.scheduler.stats().slots_free, 4);
  EXPECT_EQ(reason_of(driver, 1), FinishReason::length);
  EXPECT_EQ(driver.problem(), "");
}

// A row with NaN fails its own request only; the next request on the same memory is right.
TEST(Scheduler, NanRowFailsOnlyItsRequest) {
  SchedulerOptions options = roomy();
  options.slots = options.max_running = 2;
  Driver driver(options);
  driver.add(fake_request(0, 30, 20));
  driver.add(fake_request(1, 30, 20), 4);
  driver.add(fake_request(2, 30, 20));
  driver.add(fake_request(3, 30, 20), 0);
  driver.drain();
  EXPECT_EQ(reason_of(driver, 0), FinishReason::length);
  EXPECT_EQ(reason_of(driver, 1), FinishReason::error);
  EXPECT_EQ(driver.record("r1").finish->message, "non-finite logits (numerical error)");
  EXPECT_EQ(driver.record("r1").output.size(), 4U);
  EXPECT_EQ(reason_of(driver, 2), FinishReason::length);
  EXPECT_EQ(reason_of(driver, 3), FinishReason::error);
  EXPECT_EQ(driver.problem(), "") << "the fake also checks that the memory was zeroed before its reuse";
}

TEST(Scheduler, RetractsTheYoungestAndFinishesAll) {
  SchedulerOptions options = roomy();
  options.page_size = 4;
  options.pages = 30;
  options.conservativeness = 0;
  Driver driver(options);
  for (int i = 0; i < 4; ++i) driver.add(fake_request(i, 20, 60));
  int starts_of_the_oldest = 0;
  while (!driver.scheduler.idle() && driver.problem().empty()) {
    driver.step(FakeModel::Failure::none, {}, [&](const StepPlan& plan) {
      for (const Segment& s : plan.segments) {
        const bool oldest = plan.tokens[static_cast<size_t>(s.row_begin)] == FakeModel::kFirstName;
        starts_of_the_oldest += s.position == 0 && oldest ? 1 : 0;
      }
    });
  }
  driver.drain();
  EXPECT_EQ(starts_of_the_oldest, 1);
  EXPECT_GT(driver.scheduler.stats().retractions, 0);
  EXPECT_GT(driver.model.restarts, 0);
  for (int i = 0; i < 4; ++i) EXPECT_EQ(reason_of(driver, i), FinishReason::length);
  EXPECT_EQ(driver.problem(), "");
}

TEST(Scheduler, AReserveForTheOutputAvoidsRetractions) {
  SchedulerOptions options = roomy();
  options.page_size = 4;
  options.pages = 30;
  options.conservativeness = 100;
  Driver driver(options);
  for (int i = 0; i < 4; ++i) driver.add(fake_request(i, 20, 60));
  driver.drain();
  EXPECT_EQ(driver.scheduler.stats().retractions, 0);
  EXPECT_EQ(driver.problem(), "");
}

TEST(Scheduler, DecodeRowsCannotStarveAPrefill) {
  SchedulerOptions options = roomy();
  options.chunk_tokens = 64;
  options.slots = options.max_running = 20;
  options.max_queued = 30;
  Driver driver(options);
  for (int i = 0; i < 19; ++i) driver.add(fake_request(i, 2, 400));
  driver.step();
  driver.add(fake_request(30, 200, 3));
  for (int i = 0; i < 60; ++i) driver.step();
  EXPECT_TRUE(driver.record("r30").finish.has_value()) << "with 19 decode rows only 45 are left, less than a chunk";
  driver.drain();
  EXPECT_EQ(driver.problem(), "");
}

TEST(Scheduler, AFailedStepEndsItsRequestsOnly) {
  SchedulerOptions options = roomy();
  options.max_running = 2;
  Driver driver(options);
  for (int i = 0; i < 4; ++i) driver.add(fake_request(i, 20, 10));
  driver.step();
  driver.step(FakeModel::Failure::half_way);
  for (int i = 0; i < 2; ++i) EXPECT_EQ(reason_of(driver, i), FinishReason::error);
  EXPECT_EQ(driver.record("r0").finish->message, "injected half way");
  driver.drain();
  for (int i = 2; i < 4; ++i) EXPECT_EQ(reason_of(driver, i), FinishReason::length);
  EXPECT_EQ(driver.problem(), "");
}

TEST(Scheduler, CountsWhatItDid) {
  ManualClock clock;
  Scheduler scheduler(roomy(), clock);
  SchedulerOptions options = roomy();
  FakeModel model(options);
  const Request request = fake_request(0, 100, 5);
  model.expect(request);
  ASSERT_TRUE(scheduler.add(request));
  clock.advance(std::chrono::seconds(3));
  EXPECT_EQ(scheduler.stats().oldest_queued_seconds, 3);
  EXPECT_EQ(scheduler.stats().queued, 1);
  while (auto plan = scheduler.plan()) scheduler.commit(model.run(*plan));
  EXPECT_EQ(scheduler.stats().prompt_tokens, 100);
  EXPECT_EQ(scheduler.stats().generated_tokens, 5);
  EXPECT_EQ(scheduler.stats().oldest_queued_seconds, 0);
  EXPECT_TRUE(scheduler.idle());
}

TEST(SchedulerDeath, PlansMustBeAnswered) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  ManualClock clock;
  Scheduler scheduler(roomy(), clock);
  ASSERT_TRUE(scheduler.add(fake_request(0, 5, 5)));
  ASSERT_TRUE(scheduler.plan().has_value());
  EXPECT_DEATH((void)scheduler.plan(), "neither committed nor failed");
  StepResult stranger;
  stranger.epoch = 7;
  EXPECT_DEATH((void)scheduler.commit(stranger), "result of step 7, outstanding is 1");
  (void)scheduler.fail("done");
}

}  // namespace
}  // namespace perigee
