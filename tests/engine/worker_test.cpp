// Worker: the real model under the Scheduler, on a small synthetic checkpoint. A request's answer must be the same
// alone, in company, with any chunk size and page size, and after a retraction.
#include "engine/worker.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <map>

#include "base/random.h"
#include "cpu/ops.h"
#include "engine/scheduler.h"
#include "model/checkpoint.h"
#include "model/synth.h"
#include "model/weight_loader.h"

namespace perigee {
namespace {

class WorkerTest : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    std::string folder = std::filesystem::temp_directory_path() / "perigee-worker-XXXXXX";
    ASSERT_NE(mkdtemp(folder.data()), nullptr);
    // Narrow, so that sanitizers finish too; every mechanism of the family is still there.
    const std::vector<std::string> narrow = {"num_hidden_layers=4", "hidden_size=64", "num_experts=4",
                                             "moe_intermediate_size=32", "intermediate_size=64"};
    write_synthetic_checkpoint(synth_config("tiny", narrow).value(), folder, {.seed = 3, .threads = 2, .quiet = true});
    ModelConfig config = load_config(folder).value();
    const Checkpoint checkpoint = Checkpoint::open(folder).value();
    Weights weights = load_weights(checkpoint, config, cpu_ops(), {.threads = 2, .quiet = true});
    model_ = std::make_shared<const Model>(std::move(config), std::move(weights));
    std::filesystem::remove_all(folder);
  }
  static void TearDownTestSuite() { model_.reset(); }

  static std::vector<Request> requests(float temperature) {
    constexpr std::array<int64_t, 6> kLengths = {100, 7, 64, 65, 130, 1};
    std::vector<Request> list;
    PhiloxStream random(21);
    for (const int64_t length : kLengths) {
      Request request;
      request.id = fmt::format("r{}", list.size());
      for (int64_t i = 0; i < length; ++i) request.prompt.push_back(static_cast<int32_t>(random.next_below(1000)));
      request.sampling.temperature = temperature;
      request.sampling.seed = list.size() + 40;
      request.sampling.max_new_tokens = 12;
      list.push_back(std::move(request));
    }
    return list;
  }

  static SchedulerOptions roomy() {
    SchedulerOptions options;
    options.page_size = 16;
    options.pages = 200;
    options.slots = options.max_running = 8;
    options.max_queued = 8;
    options.chunk_tokens = 512;
    options.context_length = 1000;
    return options;
  }

  static std::unique_ptr<Worker> worker(const SchedulerOptions& options, int threads = 2) {
    const CacheShape shape{
        .kv_dtype = DType::bf16, .page_size = options.page_size, .pages = options.pages, .slots = options.slots};
    return std::make_unique<Worker>(model_, Device::create(cpu_ops(), threads), shape, options.chunk_tokens,
                                    options.max_running);
  }

  struct Outcome {
    std::vector<std::vector<int32_t>> outputs;
    std::vector<Finish> finishes;
    SchedulerStats stats;
  };

  /// Runs the requests together. `before_step` may meddle with the caches.
  static Outcome run(const std::vector<Request>& list, const SchedulerOptions& options, int threads = 2,
                     const std::function<void(const StepPlan&, const Worker&)>& before_step = {}) {
    const auto device = worker(options, threads);
    SteadyClock clock;
    Scheduler scheduler(options, clock);
    for (const Request& request : list) EXPECT_TRUE(scheduler.add(request));
    std::map<std::string, std::vector<int32_t>> outputs;
    std::map<std::string, Finish> finishes;
    while (auto plan = scheduler.plan()) {
      if (before_step) before_step(*plan, *device);
      for (const Event& event : scheduler.commit(device->run(*plan))) {
        for (const TokenOutput& token : event.tokens) outputs[event.request_id].push_back(token.id);
        if (event.finish) finishes[event.request_id] = *event.finish;
      }
      EXPECT_EQ(scheduler.check_invariants(), "");
    }
    EXPECT_TRUE(scheduler.idle());
    Outcome outcome;
    for (const Request& request : list) {
      outcome.outputs.push_back(outputs[request.id]);
      outcome.finishes.push_back(finishes[request.id]);
    }
    outcome.stats = scheduler.stats();
    return outcome;
  }

  static std::vector<std::vector<int32_t>> alone(const std::vector<Request>& list) {
    std::vector<std::vector<int32_t>> outputs;
    for (const Request& request : list) outputs.push_back(run({request}, roomy()).outputs[0]);
    return outputs;
  }

  static std::shared_ptr<const Model> model_;
};

std::shared_ptr<const Model> WorkerTest::model_;

TEST_F(WorkerTest, AnswersDoNotDependOnCompanyOrChunks) {
  for (const float temperature : {0.0F, 1.0F}) {
    const auto list = requests(temperature);
    const auto expected = alone(list);
    EXPECT_NE(expected[0], expected[4]);
    const std::vector<int64_t> chunks =
        temperature == 0 ? std::vector<int64_t>{64, 128, 512} : std::vector<int64_t>{64};
    for (const int64_t chunk : chunks) {
      SchedulerOptions options = roomy();
      options.chunk_tokens = chunk;
      EXPECT_EQ(run(list, options).outputs, expected) << "chunks of " << chunk << ", temperature " << temperature;
    }
    SchedulerOptions options = roomy();
    options.max_running = 2;
    options.page_size = 64;
    options.pages = 40;
    EXPECT_EQ(run(list, options, 1).outputs, expected) << "two at a time, one thread, temperature " << temperature;
  }
}

TEST_F(WorkerTest, RetractionContinuesTheSameText) {
  const auto list = requests(0);
  SchedulerOptions options = roomy();
  options.page_size = 8;
  options.pages = 52;
  options.conservativeness = 0;
  const Outcome outcome = run(list, options);
  EXPECT_GT(outcome.stats.retractions, 0);
  EXPECT_EQ(outcome.outputs, alone(list));
}

TEST_F(WorkerTest, NanInOneStateFailsItsRequestAndIsZeroedForTheNext) {
  auto list = requests(0);
  const auto expected = alone(list);
  SchedulerOptions options = roomy();
  options.max_running = options.slots = 3;
  int32_t poisoned_slot = -1;
  const Outcome outcome = run(list, options, 2, [&](const StepPlan& plan, const Worker& device) {
    if (poisoned_slot >= 0) return;
    for (const Segment& segment : plan.segments) {
      if (segment.position != 68) continue;  // r2, four tokens in: r3 has no slot yet
      poisoned_slot = segment.slot;
      for (const LayerCache& layer : device.caches().layers()) {
        if (!layer.state.empty()) *layer.state.at(segment.slot).as<float>() = NAN;
      }
    }
  });
  ASSERT_GE(poisoned_slot, 0);
  EXPECT_EQ(outcome.outputs[2].size(), 4U + 1U);
  for (size_t i = 0; i < list.size(); ++i) {
    const bool hit = i == 2;
    EXPECT_EQ(outcome.finishes[i].reason, hit ? FinishReason::error : FinishReason::length) << i;
    if (hit) continue;
    EXPECT_EQ(outcome.outputs[i], expected[i]) << i;
  }
}

TEST_F(WorkerTest, ZeroesTheMemoryThePlanNames) {
  const SchedulerOptions options = roomy();
  const auto device = worker(options);
  for (const LayerCache& layer : device->caches().layers()) {
    if (!layer.kv.empty()) layer.kv.at(3).as<bf16>()[5] = to_bf16(NAN);
    if (!layer.state.empty()) layer.state.at(2).as<float>()[7] = NAN;
    if (!layer.conv.empty()) layer.conv.at(2).as<float>()[9] = NAN;
  }
  StepPlan plan;
  plan.epoch = 1;
  plan.tokens = {5};
  plan.segments = {{.row_begin = 0,
                    .row_count = 1,
                    .position = 0,
                    .commit = 1,
                    .slot = 0,
                    .source_slot = -1,
                    .page_begin = 0,
                    .page_count = 1}};
  plan.pages = {0};
  plan.zero_pages = {3};
  plan.zero_slots = {2};
  EXPECT_TRUE(device->run(plan).samples.empty());
  for (const LayerCache& layer : device->caches().layers()) {
    if (layer.kv.empty()) {
      EXPECT_EQ(layer.state.at(2).as<float>()[7], 0);
      EXPECT_EQ(layer.conv.at(2).as<float>()[9], 0);
    } else {
      EXPECT_EQ(to_float(layer.kv.at(3).as<bf16>()[5]), 0);
    }
  }
}

}  // namespace
}  // namespace perigee
