// Sampler: each filter against its definition, draws against exact probabilities (chi-square), penalties, logprobs,
// determinism by seed and position, independence of the batch.
#include "engine/sampler.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "base/random.h"

namespace perigee {
namespace {

struct Row {
  std::vector<float> logits;
  SamplingParams sampling;
  uint64_t seed = 1;
  int64_t position = 5;
  bool mask_stops = false;
  std::vector<int32_t> prompt, output;
};

std::vector<SampledToken> sample_rows(const std::vector<Row>& rows, int threads = 1) {
  ThreadPool pool(threads);
  std::vector<float> logits;
  std::vector<SampleRow> samples;
  for (const Row& row : rows) {
    logits.insert(logits.end(), row.logits.begin(), row.logits.end());
    SampleRow sample;
    sample.logit_row = static_cast<int32_t>(samples.size());
    sample.position = row.position;
    sample.seed = row.seed;
    sample.mask_stops = row.mask_stops;
    sample.sampling = std::make_shared<const SamplingParams>(row.sampling);
    sample.prompt = row.prompt;
    sample.output = row.output;
    samples.push_back(std::move(sample));
  }
  const auto vocab = static_cast<int64_t>(rows[0].logits.size());
  return sample(View(logits.data(), DType::f32, {static_cast<int64_t>(rows.size()), vocab}), samples, pool);
}

SampledToken sample_one(const Row& row) {
  return sample_rows({row})[0];
}

std::vector<float> random_logits(uint64_t seed, size_t vocab, float spread) {
  PhiloxStream random(seed);
  std::vector<float> logits(vocab);
  for (float& logit : logits) logit = spread * random.next_normal();
  return logits;
}

/// The exact distribution, by a full sort.
std::vector<double> exact(const Row& row) {
  const SamplingParams& p = row.sampling;
  const size_t vocab = row.logits.size();
  const float best = *std::max_element(row.logits.begin(), row.logits.end());
  std::vector<double> weights(vocab);
  double total = 0;
  for (size_t i = 0; i < vocab; ++i) {
    weights[i] = std::exp((static_cast<double>(row.logits[i]) - best) / p.temperature);
    total += weights[i];
  }
  std::vector<size_t> order(vocab);
  for (size_t i = 0; i < vocab; ++i) order[i] = i;
  std::sort(order.begin(), order.end(),
            [&](size_t a, size_t b) { return row.logits[a] != row.logits[b] ? row.logits[a] > row.logits[b] : a < b; });
  std::vector<double> result(vocab);
  double before = 0, kept = 0;
  for (size_t rank = 0; rank < vocab; ++rank) {
    const double weight = weights[order[rank]];
    const bool in_k = p.top_k <= 0 || rank < static_cast<size_t>(p.top_k);
    const bool in_p = before < static_cast<double>(p.top_p) * total;
    const bool in_min = weight >= static_cast<double>(p.min_p);
    if (in_k && in_p && in_min) kept += result[order[rank]] = weight;
    before += weight;
  }
  for (double& value : result) value /= kept;
  return result;
}

/// Draws at `draws` positions; the chi-square statistic over tokens with enough expectation, in standard deviations
/// above its mean. Tokens of probability zero must not occur.
double chi_square_deviation(Row row, int draws) {
  const std::vector<double> p = exact(row);
  std::vector<int> seen(p.size());
  for (int i = 0; i < draws; ++i) {
    row.position = i;
    ++seen[static_cast<size_t>(sample_one(row).token.id)];
  }
  double chi = 0, rest_expected = 0;
  int rest_seen = 0, bins = 0;
  const auto add_bin = [&](double expected, int count) {
    chi += (count - expected) * (count - expected) / expected;
    ++bins;
  };
  for (size_t i = 0; i < p.size(); ++i) {
    if (p[i] == 0) {
      EXPECT_EQ(seen[i], 0) << "token " << i << " was filtered";
    } else if (p[i] * draws >= 10) {
      add_bin(p[i] * draws, seen[i]);
    } else {
      rest_expected += p[i] * draws;
      rest_seen += seen[i];
    }
  }
  if (rest_expected >= 10) add_bin(rest_expected, rest_seen);
  EXPECT_GT(bins, 1);
  return (chi - (bins - 1)) / std::sqrt(2.0 * (bins - 1));
}

TEST(Sampler, GreedyTakesTheBestAndTheLowerOfEquals) {
  Row row;
  row.logits = {1, 3, -2, 3, 0};
  row.sampling.temperature = 0;
  EXPECT_EQ(sample_one(row).token.id, 1);
  row.logits = {-5, -5, -5};
  EXPECT_EQ(sample_one(row).token.id, 0);
}

TEST(Sampler, DrawsFollowTheDistribution) {
  struct Case {
    float temperature, top_p, min_p;
    int top_k;
  };
  for (const Case c : {Case{1, 1, 0, -1}, Case{0.5F, 1, 0, -1}, Case{2, 0.7F, 0, -1}, Case{1, 0.9F, 0, 10},
                       Case{1, 1, 0.1F, -1}, Case{1, 0.95F, 0.05F, 20}, Case{1.5F, 1, 0, 7}, Case{1, 0.3F, 0, 100}}) {
    Row row;
    row.logits = random_logits(3, 100, 1.5F);
    row.sampling.temperature = c.temperature;
    row.sampling.top_p = c.top_p;
    row.sampling.min_p = c.min_p;
    row.sampling.top_k = c.top_k;
    row.seed = 11;
    EXPECT_LT(chi_square_deviation(row, 20000), 5)
        << "temperature " << c.temperature << " top_p " << c.top_p << " min_p " << c.min_p << " top_k " << c.top_k;
  }
}

TEST(Sampler, NoUniformNumberLeavesTheNucleus) {
  // Wide vocabularies make the block-wise selection go through several rounds.
  for (const float spread : {0.01F, 0.5F, 3.0F}) {
    for (const float top_p : {0.05F, 0.5F, 0.9F, 0.999F}) {
      Row row;
      row.logits = random_logits(7, 5000, spread);
      row.sampling.top_p = top_p;
      const std::vector<double> p = exact(row);
      for (row.position = 0; row.position < 60; ++row.position) {
        const int32_t id = sample_one(row).token.id;
        ASSERT_GT(p[static_cast<size_t>(id)], 0) << "spread " << spread << " top_p " << top_p;
      }
    }
  }
}

/// Every token that a filter lets through, by drawing often.
std::set<int32_t> support(Row row) {
  std::set<int32_t> ids;
  for (row.position = 0; row.position < 3000; ++row.position) ids.insert(sample_one(row).token.id);
  return ids;
}

TEST(Sampler, TopPKeepsTheCrossingToken) {
  Row row;
  row.logits = {std::log(0.5F), std::log(0.3F), std::log(0.15F), std::log(0.05F)};
  row.sampling.top_p = 0.6F;
  EXPECT_EQ(support(row), (std::set<int32_t>{0, 1}));
  row.sampling.top_p = 0.85F;
  EXPECT_EQ(support(row), (std::set<int32_t>{0, 1, 2}));
  row.sampling.top_p = 0.0001F;
  EXPECT_EQ(support(row), (std::set<int32_t>{0}));
}

TEST(Sampler, TiesGoToTheLowerId) {
  Row row;
  row.logits = {0, 2, 2, 2, 2};
  row.sampling.top_k = 2;
  EXPECT_EQ(support(row), (std::set<int32_t>{1, 2}));
  row.sampling.top_k = -1;
  row.sampling.top_p = 0.6F;  // the equal four hold 0.98 of the mass: three reach it
  EXPECT_EQ(support(row), (std::set<int32_t>{1, 2, 3}));
}

TEST(Sampler, MinPIsRelativeToTheBestAndInclusive) {
  Row row;
  row.logits = {0, 0, std::log(0.5F), std::log(0.1F)};
  row.sampling.min_p = 0.4F;
  EXPECT_EQ(support(row), (std::set<int32_t>{0, 1, 2}));
  row.sampling.min_p = 1.0F;
  EXPECT_EQ(support(row), (std::set<int32_t>{0, 1}));
}

TEST(Sampler, ExtremeTemperaturesAreSafe) {
  Row row;
  row.logits = {10, 12, -80, 11};
  row.sampling.temperature = 1e-6F;
  EXPECT_EQ(support(row), (std::set<int32_t>{1}));
  row.sampling.temperature = 1e6F;
  EXPECT_EQ(support(row).size(), 4U);
}

TEST(Sampler, PenaltiesAndBias) {
  Row row;
  row.logits = {2, -2, 1, 0};
  row.sampling.temperature = 0;
  row.sampling.logprobs = 4;
  const auto logits_of = [&] {
    // Differences of logprobs are differences of adjusted logits; token 3 is untouched and has logit 0.
    std::vector<float> logits(4);
    float base = 0;
    const auto top = sample_one(row).token.top;
    for (const auto& [id, logprob] : top) base = id == 3 ? logprob : base;
    for (const auto& [id, logprob] : top) logits[static_cast<size_t>(id)] = logprob - base;
    return logits;
  };
  const auto expect_logits = [&](std::vector<float> expected) {
    const std::vector<float> actual = logits_of();
    for (size_t i = 0; i < 4; ++i) EXPECT_NEAR(actual[i], expected[i], 1e-5) << i;
  };
  row.prompt = {0, 0};
  row.output = {1, 1, 1};
  row.sampling.repetition_penalty = 2;
  expect_logits({1, -4, 1, 0});
  row.sampling.repetition_penalty = 1;
  row.sampling.presence_penalty = 0.5F;
  expect_logits({2, -2.5F, 1, 0});
  row.sampling.frequency_penalty = 0.25F;
  expect_logits({2, -2 - 0.5F - 0.75F, 1, 0});
  row.sampling = {};
  row.sampling.temperature = 0;
  row.sampling.logprobs = 4;
  row.sampling.logit_bias = {{2, 5.0F}, {0, -1.0F}};
  expect_logits({1, -2, 6, 0});
  EXPECT_EQ(sample_one(row).token.id, 2);
  row.sampling.repetition_penalty = 2;  // after the bias
  expect_logits({0.5F, -4, 6, 0});
}

TEST(Sampler, MaskedStopsAreNeverChosen) {
  Row row;
  row.logits = {9, 1, 8, 0};
  row.sampling.stop_ids = {0, 2};
  row.sampling.logprobs = 4;
  row.mask_stops = true;
  EXPECT_EQ(support(row), (std::set<int32_t>{1, 3}));
  EXPECT_EQ(sample_one(row).token.top.size(), 2U) << "a masked token has no logprob";
  row.sampling.temperature = 0;
  EXPECT_EQ(sample_one(row).token.id, 1);
  row.mask_stops = false;
  EXPECT_EQ(sample_one(row).token.id, 0);
}

TEST(Sampler, LogprobsAreBeforeTheTemperature) {
  Row row;
  row.logits = {std::log(0.1F), std::log(0.6F), std::log(0.3F)};
  for (const float temperature : {0.0F, 0.2F, 3.0F}) {
    row.sampling.temperature = temperature;
    row.sampling.logprobs = 2;
    const TokenOutput token = sample_one(row).token;
    EXPECT_NEAR(token.logprob, row.logits[static_cast<size_t>(token.id)], 1e-6);
    ASSERT_EQ(token.top.size(), 2U);
    EXPECT_EQ(token.top[0].first, 1);
    EXPECT_EQ(token.top[1].first, 2);
    EXPECT_NEAR(token.top[0].second, std::log(0.6F), 1e-6);
    EXPECT_NEAR(token.top[1].second, std::log(0.3F), 1e-6);
  }
  row.sampling.logprobs = 0;
  EXPECT_TRUE(sample_one(row).token.top.empty());
  EXPECT_NE(sample_one(row).token.logprob, 0);
  row.sampling.logprobs = -1;
  EXPECT_EQ(sample_one(row).token.logprob, 0);
}

TEST(Sampler, SeedAndPositionFixTheToken) {
  Row row;
  row.logits = random_logits(9, 1000, 1);
  std::set<int32_t> by_position, by_seed;
  for (int i = 0; i < 20; ++i) {
    row.seed = 1;
    row.position = i;
    const int32_t id = sample_one(row).token.id;
    EXPECT_EQ(sample_one(row).token.id, id);
    by_position.insert(id);
    row.seed = static_cast<uint64_t>(i) + 100;
    row.position = 3;
    by_seed.insert(sample_one(row).token.id);
  }
  EXPECT_GT(by_position.size(), 10U);
  EXPECT_GT(by_seed.size(), 10U);
}

TEST(Sampler, RowsDoNotDependOnTheBatch) {
  std::vector<Row> rows;
  for (int i = 0; i < 24; ++i) {
    Row row;
    row.logits = random_logits(static_cast<uint64_t>(i), 700, 2);
    row.seed = static_cast<uint64_t>(i) * 17;
    row.position = i;
    row.sampling.temperature = i % 5 == 0 ? 0 : 0.5F * static_cast<float>(i % 4 + 1);
    row.sampling.top_p = i % 3 == 0 ? 1.0F : 0.8F;
    row.sampling.top_k = i % 4 == 1 ? 30 : -1;
    row.sampling.frequency_penalty = i % 2 == 0 ? 0.3F : 0;
    row.sampling.logprobs = i % 6;
    row.output = {i, i, 2 * i};
    if (i == 13) row.logits[600] = NAN;
    rows.push_back(row);
  }
  const auto together = sample_rows(rows, 3);
  for (size_t i = 0; i < rows.size(); ++i) {
    const SampledToken alone = sample_one(rows[i]);
    EXPECT_EQ(together[i].finite, i != 13);
    EXPECT_EQ(together[i].finite, alone.finite);
    EXPECT_EQ(together[i].token.id, alone.token.id);
    EXPECT_EQ(together[i].token.logprob, alone.token.logprob);
    EXPECT_EQ(together[i].token.top, alone.token.top);
  }
}

TEST(Sampler, NonFiniteLogitsAreReported) {
  for (const float bad : {NAN, INFINITY, -INFINITY}) {
    Row row;
    row.logits = random_logits(1, 50, 1);
    row.logits[20] = bad;
    for (const float temperature : {0.0F, 1.0F}) {
      row.sampling.temperature = temperature;
      EXPECT_FALSE(sample_one(row).finite) << bad;
    }
  }
}

}  // namespace
}  // namespace perigee
