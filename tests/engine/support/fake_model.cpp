// See fake_model.h.
#include "engine/support/fake_model.h"

#include <algorithm>
#include <set>
#include <stdexcept>

namespace perigee {
namespace {

constexpr uint64_t kZeroState = 0;
constexpr uint64_t kPoison = 0xDEADDEADDEADDEAD;

uint64_t mix(uint64_t x) {
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EB;
  return x ^ (x >> 31);
}

uint64_t absorb_token(uint64_t state, int32_t token, int64_t position) {
  return mix(state * 31 + mix(static_cast<uint64_t>(token) + 1) + static_cast<uint64_t>(position) * 0x9E3779B97F4A7C15);
}

int32_t next_token(uint64_t prefix, uint64_t seed, int64_t position, bool mask_stops, const SamplingParams& sampling) {
  auto token = static_cast<int32_t>(mix(prefix ^ mix(seed + 77) ^ static_cast<uint64_t>(position)) % FakeModel::kVocab);
  const auto& stops = sampling.stop_ids;
  while (mask_stops && std::find(stops.begin(), stops.end(), token) != stops.end()) {
    token = (token + 1) % FakeModel::kVocab;
  }
  return token;
}

}  // namespace

FakeModel::FakeModel(const SchedulerOptions& options)
    : options_(options),
      states_(static_cast<size_t>(options.slots), kPoison),
      kv_(static_cast<size_t>(options.pages * options.page_size), Entry{-1, kPoison}),
      bad_pages_(static_cast<size_t>(options.pages)),
      bad_slots_(static_cast<size_t>(options.slots)) {}

void FakeModel::fault(std::string sentence) {
  if (faults_.size() < 20) faults_.push_back(std::move(sentence));
}

void FakeModel::expect(const Request& request, int64_t nan_at) {
  Truth truth;
  truth.id = request.id;
  truth.tokens = request.prompt;
  truth.prompt_size = static_cast<int64_t>(request.prompt.size());
  truth.nan_at = nan_at;
  truth.seed = request.sampling.seed.value();
  truth.sampling = request.sampling;
  truth.prefix = {kZeroState};
  const auto& stops = request.sampling.stop_ids;
  for (int64_t i = 0;; ++i) {
    if (i == static_cast<int64_t>(truth.tokens.size())) {
      const int64_t output = i - truth.prompt_size;
      const bool stopped = output > 0 && std::find(stops.begin(), stops.end(), truth.tokens.back()) != stops.end();
      if (stopped || output == request.sampling.max_new_tokens || output == nan_at) break;
      const bool masked = output < request.sampling.min_new_tokens;
      truth.tokens.push_back(next_token(truth.prefix.back(), truth.seed, i, masked, request.sampling));
    }
    truth.prefix.push_back(absorb_token(truth.prefix.back(), truth.tokens[static_cast<size_t>(i)], i));
  }
  truths_[request.prompt[0]] = std::move(truth);
}

void FakeModel::ended(const std::string& id) {
  for (auto it = truths_.begin(); it != truths_.end(); ++it) {
    Truth& truth = it->second;
    if (truth.id != id || !truth.live) continue;
    truth.live = false;
    for (const int32_t page : truth.pages) {
      for (int64_t i = 0; i < options_.page_size; ++i) {
        if (entry(page, i).owner == it->first) entry(page, i) = {-1, kPoison};
      }
    }
    // A slot that went to somebody else meanwhile holds that one's state.
    const auto state = truth.slot < 0 ? kPoison : states_[static_cast<size_t>(truth.slot)];
    if (std::find(truth.prefix.begin() + 1, truth.prefix.end(), state) != truth.prefix.end()) {
      states_[static_cast<size_t>(truth.slot)] = kPoison;
    }
  }
}

std::vector<int32_t> FakeModel::output_alone(const std::string& id) const {
  for (const auto& [name, truth] : truths_) {
    if (truth.id == id) return {truth.tokens.begin() + truth.prompt_size, truth.tokens.end()};
  }
  return {};
}

void FakeModel::check_shape(const StepPlan& plan) {
  if (plan.epoch <= last_epoch_) fault(fmt::format("epoch {} after {}", plan.epoch, last_epoch_));
  last_epoch_ = plan.epoch;
  if (static_cast<int64_t>(plan.tokens.size()) > options_.chunk_tokens) {
    fault(fmt::format("{} rows in a step", plan.tokens.size()));
  }
  if (plan.samples.size() != plan.logit_rows.size()) fault("samples and logit rows differ in number");
  for (size_t i = 0; i < plan.samples.size(); ++i) {
    if (plan.samples[i].logit_row != static_cast<int32_t>(i)) fault("sample rows are out of order");
  }
  if (!std::is_sorted(plan.logit_rows.begin(), plan.logit_rows.end())) fault("logit rows do not ascend");
  int32_t row = 0;
  std::set<int32_t> slots, pages(plan.pages.begin(), plan.pages.end());
  if (pages.size() != plan.pages.size()) fault("a page stands twice in a step");
  if (!pages.empty() && (*pages.begin() < 0 || *pages.rbegin() >= options_.pages)) fault("a page is out of range");
  int64_t chunks = 0;
  bool decodes = false;
  for (const Segment& s : plan.segments) {
    if (s.row_begin != row || s.row_count < 1) fault(fmt::format("segment at row {}, expected {}", s.row_begin, row));
    row += s.row_count;
    if (s.commit != s.row_count) fault(fmt::format("{} of {} rows are committed", s.commit, s.row_count));
    if (!slots.insert(s.slot).second) fault(fmt::format("slot {} stands twice in a step", s.slot));
    if (s.slot < 0 || s.slot >= options_.slots) fault(fmt::format("slot {} is out of range", s.slot));
    const int32_t source = s.position == 0 ? -1 : s.slot;
    if (s.source_slot != source) fault(fmt::format("position {} reads slot {}", s.position, s.source_slot));
    const int64_t end = s.position + s.row_count;
    if (s.page_count != (end + options_.page_size - 1) / options_.page_size) {
      fault(fmt::format("{} pages for {} tokens", s.page_count, end));
    }
    const bool decode =
        owner_of(plan, s) != nullptr && s.position >= owner_of(plan, s)->prompt_size && s.row_count == 1;
    if (decode && chunks > 0 && s.position % kKdaChunk != 0) fault("a decode row stands behind a chunk");
    decodes = decodes || decode;
    chunks += decode ? 0 : 1;
  }
  if (row != static_cast<int32_t>(plan.tokens.size())) fault("rows without a segment");
  mixed_steps += decodes && chunks > 0 ? 1 : 0;
  prefill_pairs += chunks > 1 ? 1 : 0;
}

void FakeModel::zero(const StepPlan& plan) {
  for (const int32_t page : plan.zero_pages) {
    for (int64_t i = 0; i < options_.page_size; ++i) entry(page, i) = {-1, kZeroState};
    bad_pages_[static_cast<size_t>(page)] = false;
  }
  for (const int32_t slot : plan.zero_slots) {
    states_[static_cast<size_t>(slot)] = kZeroState;
    bad_slots_[static_cast<size_t>(slot)] = false;
  }
}

/// Whose rows these are: by the first token of the sequence, from the step itself or from the cache.
FakeModel::Truth* FakeModel::owner_of(const StepPlan& plan, const Segment& segment) {
  const int32_t name = segment.position == 0 ? plan.tokens[static_cast<size_t>(segment.row_begin)]
                                             : entry(plan.pages[static_cast<size_t>(segment.page_begin)], 0).owner;
  const auto found = truths_.find(name);
  return found == truths_.end() ? nullptr : &found->second;
}

void FakeModel::check_reads(const Segment& segment, const Truth& truth, std::span<const int32_t> pages) {
  const bool reads = segment.source_slot >= 0 && segment.source_slot < options_.slots;
  const uint64_t state = reads ? states_[static_cast<size_t>(segment.source_slot)] : kZeroState;
  if (state != truth.prefix[static_cast<size_t>(segment.position)]) {
    fault(fmt::format("request {} at position {} reads a foreign or stale state", truth.id, segment.position));
  }
  for (int64_t i = 0; i < segment.position; ++i) {
    const Entry& e = entry(pages[static_cast<size_t>(i / options_.page_size)], i % options_.page_size);
    if (e.owner != truth.tokens[0] || e.prefix != truth.prefix[static_cast<size_t>(i + 1)]) {
      fault(fmt::format("request {} at position {} reads a foreign entry {}", truth.id, segment.position, i));
      return;
    }
  }
}

void FakeModel::absorb(const StepPlan& plan, const Segment& segment, Truth& truth, std::span<const int32_t> pages) {
  const int64_t end = segment.position + segment.row_count;
  for (int64_t i = segment.position; i < end; ++i) {
    const int32_t token = plan.tokens[static_cast<size_t>(segment.row_begin + i - segment.position)];
    if (token != truth.tokens[static_cast<size_t>(i)]) {
      fault(fmt::format("request {} runs token {} at {}", truth.id, token, i));
    }
    entry(pages[static_cast<size_t>(i / options_.page_size)], i % options_.page_size) = {
        truth.tokens[0], truth.prefix[static_cast<size_t>(i + 1)]};
  }
  for (const int32_t page : pages) {
    if (bad_pages_[static_cast<size_t>(page)]) fault(fmt::format("page {} was not zeroed", page));
  }
  if (bad_slots_[static_cast<size_t>(segment.slot)]) fault(fmt::format("slot {} was not zeroed", segment.slot));
  states_[static_cast<size_t>(segment.slot)] = truth.prefix[static_cast<size_t>(end)];
  if (segment.position == 0 && truth.slot >= 0) ++restarts;
  truth.slot = segment.slot;
  truth.pages.assign(pages.begin(), pages.end());
}

SampledToken FakeModel::draw(const SampleRow& row, const Truth& truth) {
  const int64_t output = row.position - truth.prompt_size;
  const std::span all(truth.tokens);
  if (!std::ranges::equal(row.prompt, all.first(static_cast<size_t>(truth.prompt_size))) || output < 0 ||
      !std::ranges::equal(row.output,
                          all.subspan(static_cast<size_t>(truth.prompt_size), static_cast<size_t>(output)))) {
    fault(fmt::format("request {}: the tokens for the penalties are wrong", truth.id));
  }
  if (row.seed != truth.seed) fault(fmt::format("request {}: seed {}", truth.id, row.seed));
  if (row.mask_stops != (output < truth.sampling.min_new_tokens)) fault("the stop mask is wrong");
  SampledToken sample;
  if (output == truth.nan_at) {
    sample.finite = false;
    for (const int32_t page : truth.pages) bad_pages_[static_cast<size_t>(page)] = true;
    bad_slots_[static_cast<size_t>(truth.slot)] = true;
    return sample;
  }
  sample.token.id =
      next_token(states_[static_cast<size_t>(truth.slot)], row.seed, row.position, row.mask_stops, truth.sampling);
  return sample;
}

StepResult FakeModel::run(const StepPlan& plan) {
  const Failure failure = std::exchange(failure_, Failure::none);
  check_shape(plan);
  if (failure == Failure::before_work) throw std::runtime_error("injected before the work");
  zero(plan);
  StepResult result;
  result.epoch = plan.epoch;
  for (size_t i = 0; i < plan.segments.size(); ++i) {
    if (failure == Failure::half_way && i == plan.segments.size() / 2) throw std::runtime_error("injected half way");
    const Segment& segment = plan.segments[i];
    const auto pages =
        std::span(plan.pages).subspan(static_cast<size_t>(segment.page_begin), static_cast<size_t>(segment.page_count));
    Truth* truth = owner_of(plan, segment);
    const int64_t end = segment.position + segment.row_count;
    if (truth == nullptr || !truth->live || end >= static_cast<int64_t>(truth->prefix.size())) {
      fault(fmt::format("rows up to {} of nobody, or of a request that ended", end));
      if (plan.logit_rows.size() > result.samples.size()) result.samples.emplace_back();
      continue;
    }
    check_reads(segment, *truth, pages);
    absorb(plan, segment, *truth, pages);
    const size_t next = result.samples.size();
    const int32_t last = segment.row_begin + segment.row_count - 1;
    if (next < plan.logit_rows.size() && plan.logit_rows[next] == last) {
      if (plan.samples[next].position != end) fault(fmt::format("request {} samples at {}", truth->id, end));
      result.samples.push_back(draw(plan.samples[next], *truth));
    } else {
      ++cut_chunks;
      if (end % kKdaChunk != 0) fault(fmt::format("request {}: a chunk is cut at {}", truth->id, end));
    }
  }
  if (result.samples.size() != plan.samples.size()) fault("a wanted token belongs to no segment's last row");
  result.samples.resize(plan.samples.size());
  return result;
}

}  // namespace perigee
