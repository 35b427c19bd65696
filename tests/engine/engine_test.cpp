// Engine: the thread, its mailbox and the promise of exactly one on_finish, over the fake model.
#include "engine/engine.h"

#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <stdexcept>
#include <thread>

#include "base/log.h"
#include "engine/support/driver.h"

namespace perigee {
namespace {

using std::chrono::seconds;

/// Collects a request's output; wait() returns its end.
class Collector final : public Sink {
 public:
  void on_tokens(std::span<const TokenOutput> tokens) override {
    EXPECT_EQ(finishes_, 0);
    for (const TokenOutput& token : tokens) output_.push_back(token.id);
    tokens_seen_ += static_cast<int>(tokens.size());
  }
  void on_finish(const Finish& finish) override {
    EXPECT_EQ(finishes_++, 0) << "a second on_finish";
    if (finishes_ == 1) promise_.set_value(finish);
  }
  Finish wait() {
    auto future = promise_.get_future();
    if (future.wait_for(seconds(20)) != std::future_status::ready) throw std::runtime_error("no on_finish");
    return future.get();
  }
  void wait_for_tokens(int count) const {
    while (tokens_seen_ < count) std::this_thread::yield();
  }
  /// After wait().
  const std::vector<int32_t>& output() const { return output_; }
  int finishes() const { return finishes_; }

 private:
  std::promise<Finish> promise_;
  std::vector<int32_t> output_;
  std::atomic<int> tokens_seen_{0};
  std::atomic<int> finishes_{0};
};

/// Stands before the fake model on the engine's thread: lets steps through by number, slows them down, fails them.
class Gate {
 public:
  void close() { permits_ = 0; }
  void open() { permits_ = INT32_MAX; }
  void allow(int steps) { permits_ = steps; }
  void fail(int steps) { failures_ = steps; }
  void slow() { slow_ = true; }
  int entered() const { return entered_; }

  void pass() {
    ++entered_;
    while (permits_ == 0) std::this_thread::yield();
    --permits_;
    if (slow_) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    if (failures_ > 0) {
      --failures_;
      throw std::runtime_error("out of order");
    }
  }

 private:
  std::atomic<int> permits_{INT32_MAX};
  std::atomic<int> failures_{0};
  std::atomic<int> entered_{0};
  std::atomic<bool> slow_{false};
};

class GatedModel final : public StepRunner {
 public:
  GatedModel(std::shared_ptr<FakeModel> model, std::shared_ptr<Gate> gate)
      : model_(std::move(model)), gate_(std::move(gate)) {}
  StepResult run(const StepPlan& plan) override {
    gate_->pass();
    return model_->run(plan);
  }

 private:
  std::shared_ptr<FakeModel> model_;
  std::shared_ptr<Gate> gate_;
};

class EngineTest : public testing::Test {
 protected:
  EngineTest() {
    set_log_level(LogLevel::off);
    options_.page_size = 16;
    options_.pages = 40;
    options_.slots = options_.max_running = 4;
    options_.max_queued = 60;
    options_.chunk_tokens = 128;
    options_.context_length = 600;
  }
  ~EngineTest() override {
    set_log_level(LogLevel::info);
    if (engine_) {
      engine_.reset();
      EXPECT_TRUE(model_->faults().empty()) << model_->faults()[0];
    }
  }

  /// `expected`: requests the model must know beforehand, because it belongs to the engine's thread afterwards.
  void start(const std::vector<Request>& expected) {
    model_ = std::make_shared<FakeModel>(options_);
    for (const Request& request : expected) model_->expect(request);
    engine_ = std::make_unique<Engine>(std::make_unique<GatedModel>(model_, gate_), options_,
                                       std::make_shared<SteadyClock>(), 1);
  }
  static std::vector<Request> requests(int count, int64_t prompt, int64_t output) {
    std::vector<Request> list;
    for (int i = 0; i < count; ++i) list.push_back(fake_request(i, prompt, output));
    return list;
  }
  std::shared_ptr<Collector> submit(const Request& request) {
    auto sink = std::make_shared<Collector>();
    const auto accepted = engine_->submit(request, sink);
    EXPECT_TRUE(accepted) << accepted.error().message;
    return sink;
  }

  SchedulerOptions options_;
  std::shared_ptr<Gate> gate_ = std::make_shared<Gate>();
  std::shared_ptr<FakeModel> model_;
  std::unique_ptr<Engine> engine_;
};

TEST_F(EngineTest, RunsRequestsFromSeveralThreads) {
  const auto list = requests(48, 40, 30);
  start(list);
  std::vector<std::shared_ptr<Collector>> sinks(list.size());
  std::vector<std::thread> threads;
  for (size_t t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (size_t i = t; i < list.size(); i += 4) sinks[i] = submit(list[i]);
    });
  }
  for (auto& thread : threads) thread.join();
  for (size_t i = 0; i < list.size(); ++i) {
    EXPECT_EQ(sinks[i]->wait().reason, FinishReason::length);
    EXPECT_EQ(sinks[i]->output(), model_->output_alone(list[i].id));
  }
  EXPECT_TRUE(engine_->drain(seconds(20)));
  const EngineStats stats = engine_->stats();
  EXPECT_EQ(stats.finished, 48);
  EXPECT_EQ(stats.scheduler.generated_tokens, 48 * 30);
  EXPECT_EQ(stats.violations, 0);
  EXPECT_GT(stats.steps, 0U);
  EXPECT_GT(stats.step_seconds_total, 0);
  EXPECT_GT(stats.tokens_per_second, 0);
  EXPECT_EQ(stats.scheduler.pages_free, 40);
  EXPECT_EQ(stats.seconds_since_step, 0);
}

TEST_F(EngineTest, SleepsWhenIdle) {
  const auto list = requests(1, 10, 3);
  start(list);
  submit(list[0])->wait();
  const int entered = gate_->entered();
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  EXPECT_EQ(gate_->entered(), entered);
  EXPECT_EQ(engine_->stats().steps, 3U);
}

TEST_F(EngineTest, CancelsWaitingAndRunningRequests) {
  options_.max_running = 1;
  const auto list = requests(3, 10, 300);
  start(list);
  gate_->close();
  const auto running = submit(list[0]);
  const auto waiting = submit(list[1]);
  while (gate_->entered() == 0) std::this_thread::yield();
  engine_->cancel("r1", "gone");
  engine_->cancel("nobody", "gone");
  engine_->cancel("r1", "gone again");
  gate_->allow(2);
  const Finish finish = waiting->wait();
  EXPECT_EQ(finish.reason, FinishReason::cancelled);
  EXPECT_EQ(finish.message, "gone");
  running->wait_for_tokens(2);
  engine_->cancel("r0", "closed");
  gate_->open();
  EXPECT_EQ(running->wait().reason, FinishReason::cancelled);
  EXPECT_TRUE(engine_->drain(seconds(20)));
  EXPECT_EQ(engine_->stats().cancelled, 2);
  EXPECT_EQ(engine_->stats().scheduler.slots_free, 4);
}

TEST_F(EngineTest, CancelAllSparesLaterRequests) {
  const auto list = requests(4, 10, 20);
  start(list);
  gate_->close();
  std::vector<std::shared_ptr<Collector>> sinks;
  for (int i = 0; i < 3; ++i) sinks.push_back(submit(list[static_cast<size_t>(i)]));
  engine_->cancel_all("abort all");
  const auto later = submit(list[3]);
  gate_->open();
  for (const auto& sink : sinks) EXPECT_EQ(sink->wait().reason, FinishReason::cancelled);
  EXPECT_EQ(later->wait().reason, FinishReason::length);
}

TEST_F(EngineTest, RefusesAtTheDoor) {
  options_.max_running = 1;
  options_.max_queued = 1;
  const auto list = requests(3, 10, 20);
  start(list);
  gate_->close();
  const auto first = submit(list[0]);
  const auto second = submit(list[1]);
  const auto refused = [&](const Request& request) {
    const auto result = engine_->submit(request, std::make_shared<Collector>());
    EXPECT_FALSE(result);
    EXPECT_FALSE(result.error().message.empty());
    return result.error().kind;
  };
  using Kind = SubmitError::Kind;
  EXPECT_EQ(refused(list[0]), Kind::duplicate_id);
  EXPECT_EQ(refused(list[2]), Kind::queue_full);
  EXPECT_EQ(refused(fake_request(7, 590, 20)), Kind::too_long);
  while (gate_->entered() == 0) std::this_thread::yield();
  const SchedulerStats stats = engine_->stats().scheduler;
  EXPECT_EQ(stats.queued + stats.running, 2);
  gate_->open();
  first->wait();
  second->wait();
  EXPECT_TRUE(engine_->drain(seconds(20)));
  EXPECT_EQ(refused(list[2]), Kind::draining);
  EXPECT_TRUE(engine_->stats().draining);
}

TEST_F(EngineTest, AnIdIsFreeOnceItsFinishWasDelivered) {
  start(requests(1, 10, 3));
  for (int i = 0; i < 50; ++i) submit(fake_request(0, 10, 3))->wait();
  EXPECT_TRUE(engine_->drain(seconds(20)));
  EXPECT_EQ(engine_->stats().finished, 50);
}

TEST_F(EngineTest, DrainGivesUpAfterItsTimeout) {
  const auto list = requests(1, 10, 20);
  start(list);
  gate_->close();
  const auto sink = submit(list[0]);
  EXPECT_FALSE(engine_->drain(std::chrono::milliseconds(20)));
  gate_->open();
  EXPECT_TRUE(engine_->drain(seconds(20)));
  EXPECT_EQ(sink->finishes(), 1) << "drain returns after the last on_finish";
}

TEST_F(EngineTest, DestructionCancelsEverything) {
  options_.max_running = 2;
  options_.pages = 600;
  options_.context_length = 9000;
  const auto list = requests(6, 10, 8000);
  start(list);
  gate_->slow();
  std::vector<std::shared_ptr<Collector>> sinks;
  for (const Request& request : list) sinks.push_back(submit(request));
  sinks[0]->wait_for_tokens(1);
  engine_.reset();
  for (const auto& sink : sinks) {
    ASSERT_EQ(sink->finishes(), 1);
    EXPECT_EQ(sink->wait().reason, FinishReason::cancelled);
  }
  EXPECT_TRUE(model_->faults().empty());
}

TEST_F(EngineTest, FailedStepsFailTheirRequestsAndRepeatedOnesTheHealth) {
  const auto list = requests(6, 10, 5);
  start(list);
  gate_->fail(1);
  const Finish finish = submit(list[0])->wait();
  EXPECT_EQ(finish.reason, FinishReason::error);
  EXPECT_NE(finish.message.find("out of order"), std::string::npos);
  EXPECT_TRUE(engine_->stats().healthy) << "once is not enough";
  EXPECT_EQ(submit(list[1])->wait().reason, FinishReason::length);

  gate_->fail(3);
  for (int i = 2; i < 5; ++i) {
    EXPECT_TRUE(engine_->stats().healthy);
    EXPECT_EQ(submit(list[static_cast<size_t>(i)])->wait().reason, FinishReason::error);
  }
  EXPECT_FALSE(engine_->stats().healthy);
  EXPECT_EQ(engine_->stats().failed, 4);
  gate_->close();
  const auto probe = submit(list[5]);
  const auto second = engine_->submit(list[0], std::make_shared<Collector>());
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().kind, SubmitError::Kind::device_failed);
  gate_->open();
  EXPECT_EQ(probe->wait().reason, FinishReason::length);
  EXPECT_TRUE(engine_->stats().healthy);
}

TEST_F(EngineTest, CancelsFromEverywhereLeaveNothingBehind) {
  const auto list = requests(60, 30, 40);
  start(list);
  std::vector<std::shared_ptr<Collector>> sinks;
  for (const Request& request : list) sinks.push_back(submit(request));
  std::vector<std::thread> threads;
  for (size_t t = 0; t < 3; ++t) {
    threads.emplace_back([&, t] {
      for (size_t i = t; i < list.size(); i += 4) {
        engine_->cancel(list[i].id, "race");
        (void)engine_->stats();
        std::this_thread::yield();
      }
    });
  }
  for (auto& thread : threads) thread.join();
  for (size_t i = 0; i < list.size(); ++i) {
    const Finish finish = sinks[i]->wait();
    EXPECT_TRUE(finish.reason == FinishReason::length || (finish.reason == FinishReason::cancelled && i % 4 != 3));
  }
  EXPECT_TRUE(engine_->drain(seconds(20)));
  const EngineStats stats = engine_->stats();
  EXPECT_EQ(stats.scheduler.pages_free, stats.scheduler.pages_total);
  EXPECT_EQ(stats.scheduler.slots_free, stats.scheduler.slots_total);
  EXPECT_EQ(stats.finished + stats.cancelled, 60);
}

}  // namespace
}  // namespace perigee
