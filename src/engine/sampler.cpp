// Logits to tokens on the host; see sampler.h for the order of operations.
//
// The filters are read as SGLang's default reads them: each is applied to the distribution over the whole vocabulary,
// and a token must pass all of them. In the order "best logit first, equal logits lower id first" each filter keeps a
// beginning of the list, so together they keep the shortest of the three. No filter needs the whole list sorted.
#include "engine/sampler.h"

#include <algorithm>
#include <cfloat>
#include <cmath>

#include "base/random.h"

namespace perigee {
namespace {

struct Candidate {
  float logit;
  float weight;  ///< exp((logit - best) / temperature): the best token weighs 1
  int32_t id;
};

bool better(const Candidate& a, const Candidate& b) {
  return a.logit != b.logit ? a.logit > b.logit : a.id < b.id;
}

bool all_finite(std::span<const float> logits) {
  bool finite = true;
  for (const float logit : logits) finite &= std::fabs(logit) <= FLT_MAX;
  return finite;
}

/// How often tokens occur; cleared by for_each, so that the table is filled once per row.
class Counts {
 public:
  explicit Counts(size_t vocab) : counts_(vocab) {}
  /// Calls visit(id, times) once for every distinct token of the lists.
  template <class Visit>
  void for_each(std::initializer_list<std::span<const int32_t>> lists, Visit&& visit) {
    for (const auto list : lists) {
      for (const int32_t id : list) ++counts_[static_cast<size_t>(id)];
    }
    for (const auto list : lists) {
      for (const int32_t id : list) {
        const int32_t times = std::exchange(counts_[static_cast<size_t>(id)], 0);
        if (times > 0) visit(static_cast<size_t>(id), static_cast<float>(times));
      }
    }
  }

 private:
  std::vector<int32_t> counts_;
};

void penalize(std::span<float> logits, const SampleRow& row) {
  const SamplingParams& p = *row.sampling;
  const bool additive = p.presence_penalty != 0.0F || p.frequency_penalty != 0.0F;
  if (p.repetition_penalty == 1.0F && !additive) return;
  Counts counts(logits.size());
  if (p.repetition_penalty != 1.0F) {
    counts.for_each({row.prompt, row.output}, [&](size_t id, float) {
      logits[id] = logits[id] > 0 ? logits[id] / p.repetition_penalty : logits[id] * p.repetition_penalty;
    });
  }
  if (additive) {
    counts.for_each({row.output},
                    [&](size_t id, float times) { logits[id] -= p.presence_penalty + p.frequency_penalty * times; });
  }
}

/// Bias, penalties, stop mask.
void adjust(std::span<float> logits, const SampleRow& row) {
  const auto vocab = static_cast<int64_t>(logits.size());
  for (const auto& [id, bias] : row.sampling->logit_bias) {
    if (id >= 0 && id < vocab) logits[static_cast<size_t>(id)] += bias;
  }
  penalize(logits, row);
  if (!row.mask_stops) return;
  for (const int32_t id : row.sampling->stop_ids) {
    if (id >= 0 && id < vocab) logits[static_cast<size_t>(id)] = -INFINITY;
  }
}

/// Cuts the list behind the token with which the weight of the better ones reaches `mass`: a bisection that halves the
/// part in question each time, so the work is linear.
void keep_mass(std::vector<Candidate>& list, double mass) {
  size_t low = 0;  // the tokens before low weigh less than mass, those before high reach it
  size_t high = list.size();
  double before_low = 0;
  while (high - low > 1) {
    const size_t middle = low + (high - low) / 2;
    const auto at = [&list](size_t i) { return list.begin() + static_cast<ptrdiff_t>(i); };
    std::nth_element(at(low), at(middle), at(high), better);
    double sum = before_low;
    for (size_t i = low; i < middle; ++i) sum += static_cast<double>(list[i].weight);
    if (sum >= mass) {
      high = middle;
    } else {
      low = middle;
      before_low = sum;
    }
  }
  list.resize(low + 1);
}

/// What top-k, top-p and min-p leave of the vocabulary, by ascending id. `weights` as in Candidate, `total` their sum.
std::vector<Candidate> filter(std::span<const float> logits, std::span<const float> weights, double total,
                              const SamplingParams& p) {
  // Tokens below this weight together weigh less than what top-p leaves out, so that none of them can be kept.
  const double outside = 0.99 * (1.0 - static_cast<double>(p.top_p)) * total / static_cast<double>(logits.size());
  const double floor = std::max(static_cast<double>(p.min_p), outside);
  std::vector<Candidate> list;
  for (size_t i = 0; i < logits.size(); ++i) {
    if (weights[i] >= floor) list.push_back({logits[i], weights[i], static_cast<int32_t>(i)});
  }
  const bool by_count = p.top_k > 0 && static_cast<size_t>(p.top_k) < list.size();
  if (!by_count && p.top_p >= 1.0F) return list;
  std::vector<Candidate> kept = list;
  if (by_count) {
    std::nth_element(kept.begin(), kept.begin() + (p.top_k - 1), kept.end(), better);
    kept.resize(static_cast<size_t>(p.top_k));
  }
  // After either selection the last one kept is the worst of them.
  if (p.top_p < 1.0F) keep_mass(kept, static_cast<double>(p.top_p) * total);
  const Candidate worst = kept.back();
  std::erase_if(list, [&worst](const Candidate& candidate) { return better(worst, candidate); });
  return list;
}

/// The token at which the running sum of weights passes uniform * total. `weight(i)` for i in [0, count).
template <class Weight>
size_t draw(size_t count, double total, double uniform, Weight&& weight) {
  const double target = uniform * total;
  double sum = 0;
  size_t last = 0;
  for (size_t i = 0; i < count; ++i) {
    if (weight(i) <= 0) continue;
    last = i;
    sum += static_cast<double>(weight(i));
    if (sum > target) return i;
  }
  return last;  // the sum fell short of the total by rounding
}

int32_t sample_token(std::span<const float> logits, float best, const SampleRow& row) {
  const SamplingParams& p = *row.sampling;
  std::vector<float> weights(logits.size());
  double total = 0;
  for (size_t i = 0; i < logits.size(); ++i) {
    weights[i] = std::exp((logits[i] - best) / p.temperature);
    total += static_cast<double>(weights[i]);
  }
  const auto bits = philox4x32(row.seed, static_cast<uint64_t>(row.position), 0);
  const double uniform = uniform_double(bits[0], bits[1]);
  if (p.top_k <= 0 && p.top_p >= 1.0F && p.min_p <= 0.0F) {
    return static_cast<int32_t>(draw(weights.size(), total, uniform, [&](size_t i) { return weights[i]; }));
  }
  const std::vector<Candidate> list = filter(logits, weights, total, p);
  double kept = 0;
  for (const Candidate& candidate : list) kept += static_cast<double>(candidate.weight);
  return list[draw(list.size(), kept, uniform, [&](size_t i) { return list[i].weight; })].id;
}

/// The chosen token's logprob and the k best; masked tokens are not among them.
void add_logprobs(std::span<const float> logits, float best, int32_t k, TokenOutput& token) {
  double sum = 0;
  for (const float logit : logits) sum += static_cast<double>(std::exp(logit - best));
  const double norm = static_cast<double>(best) + std::log(sum);
  const auto logprob = [&](float logit) { return static_cast<float>(static_cast<double>(logit) - norm); };
  token.logprob = logprob(logits[static_cast<size_t>(token.id)]);
  if (k == 0) return;
  std::vector<Candidate> list;
  for (size_t i = 0; i < logits.size(); ++i) {
    if (logits[i] > -INFINITY) list.push_back({logits[i], 0, static_cast<int32_t>(i)});
  }
  const size_t count = std::min(static_cast<size_t>(k), list.size());
  std::partial_sort(list.begin(), list.begin() + static_cast<ptrdiff_t>(count), list.end(), better);
  for (size_t i = 0; i < count; ++i) token.top.emplace_back(list[i].id, logprob(list[i].logit));
}

SampledToken sample_row(std::span<float> logits, const SampleRow& row) {
  SampledToken result;
  // Checked on the model's own output: what follows may write -infinity on purpose.
  result.finite = all_finite(logits);
  if (!result.finite) return result;
  adjust(logits, row);
  const auto best = std::max_element(logits.begin(), logits.end());  // the first of equals: the lowest id
  result.finite = std::isfinite(*best);
  if (!result.finite) return result;
  result.token.id =
      row.sampling->temperature > 0 ? sample_token(logits, *best, row) : static_cast<int32_t>(best - logits.begin());
  if (row.sampling->logprobs >= 0) add_logprobs(logits, *best, row.sampling->logprobs, result.token);
  return result;
}

}  // namespace

std::vector<SampledToken> sample(View logits, std::span<const SampleRow> rows, ThreadPool& pool) {
  std::vector<SampledToken> results(rows.size());
  pool.parallel_for(static_cast<int64_t>(rows.size()), [&](int64_t i, int) {
    const SampleRow& row = rows[static_cast<size_t>(i)];
    PERIGEE_CHECK(row.logit_row >= 0 && row.logit_row < logits.rows(), "logit row {} of {}", row.logit_row,
                  logits.rows());
    const std::span values(logits.row<float>(row.logit_row), static_cast<size_t>(logits.cols()));
    results[static_cast<size_t>(i)] = sample_row(values, row);
  });
  return results;
}

}  // namespace perigee
