// The whole model against the independent numpy model (tools/reference): logits and caches, whole prompt, chunks, odd
// cuts and token by token, for the reference table and for this machine's best one; and, for every known misreading of
// the model, the proof that these goldens would show it.

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>
#include <tuple>

#include "cpu/ops.h"
#include "model/checkpoint.h"
#include "model/support/golden.h"
#include "model/support/model_rig.h"
#include "model/weight_loader.h"

namespace perigee::test {
namespace {

/// Largest difference over the rms of what is expected, for float32 arithmetic against float64.
constexpr double kTolerance = 1e-4;
/// The same when the KV cache rounds to BF16 (8 bits of mantissa, over a few layers).
constexpr double kBf16KvTolerance = 2e-2;
/// A misreading must differ by at least this many tolerances.
constexpr double kVisible = 20;

double rms(const Row& row) {
  double square = 0;
  for (const float value : row) square += static_cast<double>(value) * static_cast<double>(value);
  return std::sqrt(square / static_cast<double>(row.size()));
}

/// NaN counts as infinitely far.
double largest_difference(const Row& got, const Row& want) {
  if (got.size() != want.size()) return std::numeric_limits<double>::infinity();
  double worst = 0;
  for (size_t i = 0; i < got.size(); ++i) {
    const double difference = std::abs(static_cast<double>(got[i]) - static_cast<double>(want[i]));
    if (!(difference <= std::numeric_limits<double>::max())) return std::numeric_limits<double>::infinity();
    worst = std::max(worst, difference);
  }
  return worst;
}

/// What a run over the whole prompt leaves.
struct Outcome {
  std::vector<Row> logits;  ///< every row
  ModelRig rig;
  TestSequence sequence;
};

class GoldenTest : public testing::TestWithParam<std::tuple<std::string, bool>> {
 protected:
  const Golden golden_ = read_golden(std::get<0>(GetParam()));
  const Ops& ops_ = std::get<1>(GetParam()) ? cpu_ops() : reference_ops();
  const Model model_ = load_model(golden_.folder, ops_);

  /// Feeds the prompt in steps that end at `cuts` (ascending, the last is the prompt's length).
  Outcome run(std::span<const int32_t> cuts, DType kv_dtype = DType::f32) const {
    const CacheShape shape{.kv_dtype = kv_dtype, .page_size = 16, .pages = 12, .slots = 2};
    Outcome out{{}, ModelRig(model_, ops_, 2, shape), {.slot = 1, .pages = {11, 3, 7, 0, 1, 9, 4, 2, 10, 6}}};
    for (const int32_t cut : cuts) {
      const auto begin = static_cast<size_t>(out.sequence.position);
      const std::span<const int32_t> tokens(golden_.prompt);
      for (Row& row : out.rig.step(out.sequence, tokens.subspan(begin, static_cast<size_t>(cut) - begin))) {
        out.logits.push_back(std::move(row));
      }
    }
    return out;
  }

  int32_t length() const { return static_cast<int32_t>(golden_.prompt.size()); }

  /// Largest relative error of the stored rows.
  double logits_error(const std::vector<Row>& logits) const {
    double worst = 0;
    for (size_t i = 0; i < golden_.positions.size(); ++i) {
      worst =
          std::max(worst, largest_difference(logits.at(static_cast<size_t>(golden_.positions[i])), golden_.logits[i]));
    }
    return worst / golden_.logits_rms;
  }

  void expect_caches(const Outcome& outcome, double tolerance) const {
    size_t compared = 0;
    for (size_t layer = 0; layer < model_.weights().layers.size(); ++layer) {
      const std::string name = fmt::format("layer.{}.", layer);
      const auto expect = [&](const std::string& part, const Row& got) {
        const Row& want = golden_.caches.at(name + part).values;
        EXPECT_LE(largest_difference(got, want), tolerance * rms(want)) << name << part;
        ++compared;
      };
      if (model_.config().is_mla[layer]) {
        expect("kv", outcome.rig.kv(outcome.sequence, layer));
      } else {
        expect("state", outcome.rig.state(outcome.sequence.slot, layer));
        expect("conv", outcome.rig.conv(outcome.sequence.slot, layer));
      }
    }
    EXPECT_EQ(compared, golden_.caches.size());
  }

  void expect_golden(std::span<const int32_t> cuts, DType kv_dtype, double tolerance) const {
    const Outcome outcome = run(cuts, kv_dtype);
    const double error = logits_error(outcome.logits);
    RecordProperty("logits_error", fmt::format("{:.2e}", error));
    EXPECT_LE(error, tolerance);
    expect_caches(outcome, tolerance);
  }
};

TEST_P(GoldenTest, WholePromptAtOnce) {
  expect_golden(std::vector{length()}, DType::f32, kTolerance);
}

TEST_P(GoldenTest, ChunksAtMultiplesOf64) {
  expect_golden(std::vector{64, 128, length()}, DType::f32, kTolerance);
}

TEST_P(GoldenTest, OddCuts) {
  expect_golden(std::vector{1, 3, 20, 21, 85, 149, length()}, DType::f32, kTolerance);
}

TEST_P(GoldenTest, TokenByToken) {
  std::vector<int32_t> cuts(golden_.prompt.size());
  std::iota(cuts.begin(), cuts.end(), 1);
  expect_golden(cuts, DType::f32, kTolerance);
}

TEST_P(GoldenTest, Bf16KvCacheStaysClose) {
  expect_golden(std::vector{length()}, DType::bf16, kBf16KvTolerance);
  expect_golden(std::vector{64, 65, 66, length()}, DType::bf16, kBf16KvTolerance);
}

TEST_P(GoldenTest, EveryMisreadingWouldShow) {
  const Row last = run(std::vector{length()}).logits.back();
  EXPECT_LE(largest_difference(last, golden_.logits.back()) / golden_.logits_rms, kTolerance);
  EXPECT_GE(golden_.wrong.size(), 17U);
  for (const auto& [name, logits] : golden_.wrong) {
    EXPECT_GE(largest_difference(last, logits) / golden_.logits_rms, kVisible * kTolerance) << name;
  }
}

TEST_P(GoldenTest, LayerListsCountFromOne) {
  const auto checkpoint = Checkpoint::open(golden_.folder);
  ASSERT_TRUE(checkpoint.ok());
  ModelConfig config = model_.config();
  for (size_t layer = 0; layer < config.is_mla.size(); ++layer) {
    const std::string name = fmt::format("{}model.layers.{}.self_attn.kv_b_proj.weight", config.tensor_prefix, layer);
    EXPECT_EQ(config.is_mla[layer], checkpoint->find(name).tensor != nullptr) << name;
  }
  // Read from zero, every list entry lands one layer later: such a model asks for tensors that are not there.
  config.is_mla.insert(config.is_mla.begin(), false);
  config.is_mla.pop_back();
  EXPECT_FALSE(check_weights(*checkpoint, config).empty());
}

INSTANTIATE_TEST_SUITE_P(Goldens, GoldenTest,
                         testing::Combine(testing::Values("k3", "k3-wide-head", "kimi-linear"), testing::Bool()),
                         [](const auto& info) {
                           std::string name = std::get<0>(info.param);
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name + (std::get<1>(info.param) ? "_fast" : "_reference");
                         });

}  // namespace
}  // namespace perigee::test
