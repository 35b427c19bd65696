// The scheduling policy and the life of every sequence. See scheduler.h for the contract.
//
// Live sequences are kept in order of arrival, and those that hold memory always come before those that wait:
// admission takes the oldest waiting one, retraction gives up the youngest holder. Fairness and progress follow from
// that order: the oldest sequence is never retracted, and alone it always fits (check_fits).
#include "engine/scheduler.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <stdexcept>
#include <unordered_map>

#include "base/hash.h"
#include "engine/sequence.h"

namespace perigee {
namespace {

// Admission keeps pages for a share of the output still to come. The share starts careful, shrinks with every decode
// step that went well and is restored by a retraction. No request keeps room for more than kMaxReserve tokens.
constexpr double kShareStart = 0.7;
constexpr double kShareEnd = 0.1;
constexpr double kShareSteps = 600;
constexpr int64_t kMaxReserve = 4096;

/// Steps in which decode rows may leave no room for a chunk before one chunk gets its rows first.
constexpr int kMaxStarvedSteps = 8;

void require(bool condition, const std::string& sentence) {
  if (!condition) throw std::runtime_error(sentence);
}

void check_options(const SchedulerOptions& o) {
  require(o.page_size >= 1 && o.pages >= 1, fmt::format("{} pages of {} tokens hold no cache", o.pages, o.page_size));
  require(o.max_running >= 1 && o.max_running <= o.slots,
          fmt::format("max running requests is {}, it must be from 1 to the {} state slots", o.max_running, o.slots));
  require(o.chunk_tokens >= kKdaChunk && o.chunk_tokens % kKdaChunk == 0,
          fmt::format("the chunked prefill size is {}, it must be a multiple of {}", o.chunk_tokens, kKdaChunk));
  require(o.max_running <= o.chunk_tokens,
          fmt::format("max running requests is {}, it must not exceed the chunked prefill size {}", o.max_running,
                      o.chunk_tokens));
  require(o.context_length >= 1 && o.context_length <= INT32_MAX && o.max_queued >= 0 && o.conservativeness >= 0,
          fmt::format("context length {}, max queued requests {} and schedule conservativeness {} must not be negative",
                      o.context_length, o.max_queued, o.conservativeness));
}

int64_t pages_for(const SchedulerOptions& options, int64_t tokens) {
  return (tokens + options.page_size - 1) / options.page_size;
}

/// Rows of the next prefill chunk; 0 when the budget ends before the next place where a chunk may be cut.
int64_t chunk_rows(int64_t position, int64_t left, int64_t budget) {
  if (left <= budget) return left;
  const int64_t end = (position + budget) / kKdaChunk * kKdaChunk;
  return std::max<int64_t>(end - position, 0);
}

Finish make_finish(const Sequence& sequence, FinishReason reason, std::string message) {
  Finish finish;
  finish.reason = reason;
  finish.message = std::move(message);
  finish.prompt_tokens = sequence.prompt_size();
  finish.completion_tokens = sequence.output_size();
  return finish;
}

}  // namespace

std::optional<Rejection> check_fits(const SchedulerOptions& options, const Request& request) {
  const auto prompt = static_cast<int64_t>(request.prompt.size());
  const int64_t output = request.sampling.max_new_tokens;
  // Compared one by one, so that no sum of outside numbers can overflow.
  if (prompt > options.context_length || output > options.context_length - prompt) {
    return Rejection{Rejection::Kind::too_long,
                     fmt::format("The prompt has {} tokens and up to {} new tokens were asked for, but the context "
                                 "length is {} tokens.",
                                 prompt, output, options.context_length)};
  }
  const int64_t pages = pages_for(options, prompt + output);
  if (pages > options.pages) {
    return Rejection{Rejection::Kind::too_long,
                     fmt::format("The prompt has {} tokens and up to {} new tokens were asked for; they need {} cache "
                                 "pages, but the server has {} pages of {} tokens.",
                                 prompt, output, pages, options.pages, options.page_size)};
  }
  return std::nullopt;
}

struct Scheduler::State {
  State(SchedulerOptions chosen, const Clock& time)
      : options(chosen), clock(time), kv(chosen.pages), slots(chosen.slots) {}

  SchedulerOptions options;
  const Clock& clock;
  KvPool kv;
  StatePool slots;

  using Live = std::map<uint64_t, Sequence>;
  Live live;  ///< by arrival
  std::unordered_map<std::string, uint64_t> arrival_of;
  uint64_t arrivals = 0;
  int64_t holders = 0;  ///< sequences that are not queued

  struct Outstanding {
    uint64_t epoch;
    std::vector<Live::iterator> sequences;  ///< in the order of the plan's segments
    size_t samples;
  };
  std::optional<Outstanding> outstanding;
  uint64_t epoch = 0;
  std::vector<Event> events;
  std::vector<int32_t> zero_pages;
  std::vector<int32_t> zero_slots;

  double share = kShareStart;
  int starved_steps = 0;
  bool retracted = false;  ///< in the plan being made
  int64_t retractions = 0, prompt_tokens = 0, generated_tokens = 0;

  void plan_decodes(StepPlan& plan, std::vector<Live::iterator>& chosen, int64_t budget);
  void plan_prefills(StepPlan& plan, std::vector<Live::iterator>& chosen);
  bool grow(Sequence& sequence);
  Sequence& youngest_holder();
  void retract(Sequence& sequence);
  int64_t final_pages(const Sequence& sequence) const;
  bool affordable(const Sequence& sequence) const;
  bool admit(Sequence& sequence);
  void append(StepPlan& plan, Sequence& sequence, int64_t rows) const;

  std::optional<Event> settle(Live::iterator it, const SampledToken* sample);
  Event accept(Live::iterator it, const TokenOutput& token);
  Event end(Live::iterator it, Finish finish);
  void scrub(const Sequence& sequence);
};

/// One row for every running sequence, oldest first; needs pages, and may retract younger ones for them.
void Scheduler::State::plan_decodes(StepPlan& plan, std::vector<Live::iterator>& chosen, int64_t budget) {
  for (auto it = live.begin(); it != live.end() && static_cast<int64_t>(plan.tokens.size()) < budget; ++it) {
    Sequence& sequence = it->second;
    if (sequence.phase == Phase::queued) break;
    if (sequence.phase != Phase::running || sequence.planned_rows > 0 || !grow(sequence)) continue;
    append(plan, sequence, 1);
    chosen.push_back(it);
  }
}

/// Chunks in order of arrival with the rows that are left, admitting while the bill can be paid.
void Scheduler::State::plan_prefills(StepPlan& plan, std::vector<Live::iterator>& chosen) {
  bool starved = false;
  for (auto it = live.begin(); it != live.end(); ++it) {
    Sequence& sequence = it->second;
    if (sequence.phase == Phase::running) continue;
    const bool waiting = sequence.phase == Phase::queued;
    // What was just retracted must not take back the pages it gave up.
    if (waiting && (retracted || !affordable(sequence))) break;
    const int64_t budget = options.chunk_tokens - static_cast<int64_t>(plan.tokens.size());
    const int64_t rows = chunk_rows(sequence.cached, sequence.size() - sequence.cached, budget);
    if (rows == 0) {
      starved = chosen.empty() || chosen.back()->second.phase == Phase::running;
      break;
    }
    if (waiting && !admit(sequence)) break;
    append(plan, sequence, rows);
    chosen.push_back(it);
  }
  starved_steps = starved ? starved_steps + 1 : 0;
}

/// Makes room for one more token. False: this sequence sits the step out (its page is still behind the fence, or it was
/// the youngest itself).
bool Scheduler::State::grow(Sequence& sequence) {
  const int64_t wanted = pages_for(options, sequence.cached + 1);
  while (static_cast<int64_t>(sequence.pages.size()) < wanted) {
    if (PageRef page = kv.take()) {
      sequence.pages.push_back(std::move(page));
      continue;
    }
    if (kv.retiring() > 0) return false;
    Sequence& victim = youngest_holder();
    retract(victim);
    if (&victim == &sequence) return false;
  }
  return true;
}

Sequence& Scheduler::State::youngest_holder() {
  const auto it =
      std::find_if(live.rbegin(), live.rend(), [](const auto& entry) { return entry.second.phase != Phase::queued; });
  PERIGEE_CHECK(it != live.rend(), "no page is free and no sequence holds one");
  return it->second;
}

void Scheduler::State::retract(Sequence& sequence) {
  PERIGEE_CHECK(sequence.planned_rows == 0, "request {} is retracted from the step it is in", sequence.request.id);
  sequence.pages.clear();
  sequence.slot.reset();
  sequence.cached = 0;
  sequence.phase = Phase::queued;
  sequence.queued_at = clock.now();
  --holders;
  ++retractions;
  share = kShareStart;
  retracted = true;
}

/// Pages of all its tokens and of the share of its coming output that admission reckons with.
int64_t Scheduler::State::final_pages(const Sequence& sequence) const {
  const double part = std::min(1.0, share * options.conservativeness);
  const auto coming = static_cast<double>(std::min(sequence.output_left(), kMaxReserve));
  return pages_for(options, sequence.size() + static_cast<int64_t>(std::ceil(coming * part)));
}

bool Scheduler::State::affordable(const Sequence& sequence) const {
  if (holders >= options.max_running || slots.free() == 0) return false;
  int64_t wanted = final_pages(sequence);
  for (const auto& [arrival, other] : live) {
    if (other.phase == Phase::queued) break;
    wanted += std::max<int64_t>(0, final_pages(other) - static_cast<int64_t>(other.pages.size()));
  }
  return wanted <= kv.free();
}

/// Takes the slot and the pages of all known tokens, or nothing: what was taken goes back with the locals.
bool Scheduler::State::admit(Sequence& sequence) {
  SlotRef slot = slots.take();
  if (!slot) return false;
  std::optional<std::vector<PageRef>> pages = kv.take(pages_for(options, sequence.size()));
  if (!pages) return false;
  sequence.slot = std::move(slot);
  sequence.pages = std::move(*pages);
  sequence.phase = Phase::prefilling;
  ++holders;
  return true;
}

void Scheduler::State::append(StepPlan& plan, Sequence& sequence, int64_t rows) const {
  const int64_t end = sequence.cached + rows;
  Segment segment;
  segment.row_begin = static_cast<int32_t>(plan.tokens.size());
  segment.row_count = static_cast<int32_t>(rows);
  segment.position = static_cast<int32_t>(sequence.cached);
  segment.commit = segment.row_count;
  segment.slot = sequence.slot.index();
  segment.source_slot = sequence.cached == 0 ? -1 : segment.slot;
  segment.page_begin = static_cast<int32_t>(plan.pages.size());
  segment.page_count = static_cast<int32_t>(pages_for(options, end));
  plan.segments.push_back(segment);
  for (int64_t i = sequence.cached; i < end; ++i) plan.tokens.push_back(sequence.token(i));
  for (int32_t i = 0; i < segment.page_count; ++i) {
    plan.pages.push_back(sequence.pages[static_cast<size_t>(i)].index());
  }
  sequence.planned_rows = rows;
  if (end < sequence.size()) return;

  SampleRow row;
  row.logit_row = static_cast<int32_t>(plan.logit_rows.size());
  row.position = end;
  row.seed = sequence.seed;
  row.mask_stops = sequence.output_size() < sequence.sampling->min_new_tokens;
  row.sampling = sequence.sampling;
  row.prompt = sequence.request.prompt;
  row.output = sequence.output;
  plan.samples.push_back(std::move(row));
  plan.logit_rows.push_back(static_cast<int32_t>(plan.tokens.size()) - 1);
}

/// What the step that is over did to one of its sequences; nothing when a chunk in the middle went well.
std::optional<Event> Scheduler::State::settle(Live::iterator it, const SampledToken* sample) {
  Sequence& sequence = it->second;
  if (sequence.phase == Phase::prefilling) prompt_tokens += sequence.planned_rows;
  sequence.cached += sequence.planned_rows;
  sequence.planned_rows = 0;
  if (sample != nullptr && !sample->finite) {
    scrub(sequence);
    return end(it, make_finish(sequence, FinishReason::error, "non-finite logits (numerical error)"));
  }
  if (sequence.cancel_reason) {
    return end(it, make_finish(sequence, FinishReason::cancelled, *sequence.cancel_reason));
  }
  if (sample == nullptr) return std::nullopt;
  return accept(it, sample->token);
}

Event Scheduler::State::accept(Live::iterator it, const TokenOutput& token) {
  Sequence& sequence = it->second;
  sequence.phase = Phase::running;
  sequence.output.push_back(token.id);
  ++generated_tokens;
  const std::vector<int32_t>& stops = sequence.sampling->stop_ids;
  Event event;
  if (std::find(stops.begin(), stops.end(), token.id) != stops.end()) {
    Finish finish = make_finish(sequence, FinishReason::stop, "");
    finish.stop_id = token.id;
    event = end(it, std::move(finish));
  } else if (sequence.output_left() <= 0) {
    event = end(it, make_finish(sequence, FinishReason::length, ""));
  } else {
    event.request_id = sequence.request.id;
  }
  event.tokens.push_back(token);
  return event;
}

/// Removes the sequence; what it holds retires.
Event Scheduler::State::end(Live::iterator it, Finish finish) {
  Event event;
  event.request_id = it->second.request.id;
  event.finish = std::move(finish);
  if (it->second.phase != Phase::queued) --holders;
  arrival_of.erase(event.request_id);
  live.erase(it);
  return event;
}

/// Has the memory of a failed sequence zeroed by the next step, before anyone else can use it.
void Scheduler::State::scrub(const Sequence& sequence) {
  for (const PageRef& page : sequence.pages) zero_pages.push_back(page.index());
  if (sequence.slot) zero_slots.push_back(sequence.slot.index());
}

Scheduler::Scheduler(SchedulerOptions options, const Clock& clock) {
  check_options(options);
  state_ = std::make_unique<State>(options, clock);
}

Scheduler::~Scheduler() = default;

Result<void, Rejection> Scheduler::add(Request request) {
  State& s = *state_;
  PERIGEE_CHECK(!request.prompt.empty() && request.sampling.max_new_tokens >= 1,
                "request {} has {} prompt tokens and wants {} new ones", request.id, request.prompt.size(),
                request.sampling.max_new_tokens);
  if (s.arrival_of.contains(request.id)) {
    return Rejection{Rejection::Kind::duplicate_id, fmt::format("The request id \"{}\" is in use.", request.id)};
  }
  if (auto rejection = check_fits(s.options, request)) return *rejection;
  if (static_cast<int64_t>(s.live.size()) >= s.options.max_running + s.options.max_queued) {
    return Rejection{Rejection::Kind::queue_full,
                     fmt::format("The queue is full: {} requests are running and {} waiting.", s.holders,
                                 static_cast<int64_t>(s.live.size()) - s.holders)};
  }
  const uint64_t arrival = ++s.arrivals;
  s.arrival_of.emplace(request.id, arrival);
  Sequence& sequence = s.live[arrival];
  const std::string_view own(reinterpret_cast<const char*>(&arrival), sizeof arrival);
  sequence.seed = request.sampling.seed ? *request.sampling.seed : hash64(own, s.options.seed);
  sequence.sampling = std::make_shared<const SamplingParams>(std::move(request.sampling));
  sequence.request = std::move(request);
  sequence.queued_at = s.clock.now();
  return {};
}

bool Scheduler::cancel(const std::string& id, std::string reason) {
  State& s = *state_;
  const auto found = s.arrival_of.find(id);
  if (found == s.arrival_of.end()) return false;
  const auto it = s.live.find(found->second);
  Sequence& sequence = it->second;
  if (sequence.planned_rows == 0) {
    s.events.push_back(s.end(it, make_finish(sequence, FinishReason::cancelled, std::move(reason))));
  } else if (!sequence.cancel_reason) {
    sequence.cancel_reason = std::move(reason);
  }
  return true;
}

std::optional<StepPlan> Scheduler::plan() {
  State& s = *state_;
  PERIGEE_CHECK(!s.outstanding, "step {} is neither committed nor failed", s.outstanding->epoch);
  StepPlan plan;
  std::vector<State::Live::iterator> chosen;
  s.retracted = false;
  const bool reserve = s.starved_steps >= kMaxStarvedSteps;
  s.plan_decodes(plan, chosen, s.options.chunk_tokens - (reserve ? kKdaChunk : 0));
  s.plan_prefills(plan, chosen);
  // The chunk that rows were kept for may be gone by now.
  if (chosen.empty() && reserve) s.plan_decodes(plan, chosen, s.options.chunk_tokens);
  if (chosen.empty()) return std::nullopt;

  plan.epoch = ++s.epoch;
  plan.zero_pages = s.zero_pages;
  plan.zero_slots = s.zero_slots;
  s.kv.launched(s.epoch);
  s.slots.launched(s.epoch);
  s.outstanding = State::Outstanding{s.epoch, std::move(chosen), plan.samples.size()};
  return plan;
}

std::vector<Event> Scheduler::commit(const StepResult& result) {
  State& s = *state_;
  PERIGEE_CHECK(s.outstanding && s.outstanding->epoch == result.epoch, "result of step {}, outstanding is {}",
                result.epoch, s.outstanding ? s.outstanding->epoch : 0);
  PERIGEE_CHECK(result.samples.size() == s.outstanding->samples, "{} samples for {} rows", result.samples.size(),
                s.outstanding->samples);
  const State::Outstanding done = *std::exchange(s.outstanding, std::nullopt);
  s.kv.completed(done.epoch);
  s.slots.completed(done.epoch);
  s.zero_pages.clear();
  s.zero_slots.clear();
  s.share = std::max(kShareEnd, s.share - (kShareStart - kShareEnd) / kShareSteps);

  std::vector<Event> events;
  size_t next = 0;
  for (const auto& it : done.sequences) {
    const bool sampled = it->second.cached + it->second.planned_rows == it->second.size();
    const SampledToken* sample = sampled ? &result.samples[next++] : nullptr;
    if (auto event = s.settle(it, sample)) events.push_back(std::move(*event));
  }
  return events;
}

std::vector<Event> Scheduler::fail(const std::string& reason) {
  State& s = *state_;
  PERIGEE_CHECK(s.outstanding, "no step is outstanding");
  const State::Outstanding done = *std::exchange(s.outstanding, std::nullopt);
  s.kv.completed(done.epoch);
  s.slots.completed(done.epoch);
  std::vector<Event> events;
  for (const auto& it : done.sequences) {
    const Sequence& sequence = it->second;
    s.scrub(sequence);
    const bool cancelled = sequence.cancel_reason.has_value();
    events.push_back(s.end(it, make_finish(sequence, cancelled ? FinishReason::cancelled : FinishReason::error,
                                           cancelled ? *sequence.cancel_reason : reason)));
  }
  return events;
}

std::vector<Event> Scheduler::take_events() {
  return std::exchange(state_->events, {});
}

bool Scheduler::idle() const {
  return state_->live.empty();
}

SchedulerStats Scheduler::stats() const {
  const State& s = *state_;
  SchedulerStats stats;
  stats.running = s.holders;
  stats.queued = static_cast<int64_t>(s.live.size()) - s.holders;
  stats.pages_total = s.kv.total();
  stats.pages_free = s.kv.free();
  stats.slots_total = s.slots.total();
  stats.slots_free = s.slots.free();
  stats.retractions = s.retractions;
  stats.prompt_tokens = s.prompt_tokens;
  stats.generated_tokens = s.generated_tokens;
  const auto waiting =
      std::find_if(s.live.begin(), s.live.end(), [](const auto& e) { return e.second.phase == Phase::queued; });
  if (waiting != s.live.end()) stats.oldest_queued_seconds = seconds(s.clock.now() - waiting->second.queued_at);
  return stats;
}

std::string Scheduler::check_invariants() const {
  const State& s = *state_;
  std::set<int32_t> pages, slots;
  int64_t holders = 0;
  for (const auto& [arrival, q] : s.live) {
    const std::string& id = q.request.id;
    const auto held = static_cast<int64_t>(q.pages.size());
    const auto index = s.arrival_of.find(id);
    if (index == s.arrival_of.end() || index->second != arrival) return fmt::format("request {} is not indexed", id);
    if (q.cached >= q.size()) return fmt::format("request {}: {} of {} tokens cached", id, q.cached, q.size());
    if (q.phase == Phase::queued) {
      if (held != 0 || q.slot || q.cached != 0) return fmt::format("request {} waits and holds memory", id);
      continue;
    }
    if (++holders; index->second > arrival || !q.slot) return fmt::format("request {} runs without a slot", id);
    if (q.phase == Phase::running && q.cached + 1 != q.size()) {
      return fmt::format("request {} runs with {} of {} tokens cached", id, q.cached, q.size());
    }
    const int64_t least = pages_for(s.options, q.phase == Phase::running ? q.cached : q.size());
    if (held < least || held > pages_for(s.options, q.size())) {
      return fmt::format("request {} holds {} pages for {} of {} tokens", id, held, q.cached, q.size());
    }
    if (!slots.insert(q.slot.index()).second) return fmt::format("slot {} is held twice", q.slot.index());
    for (const PageRef& page : q.pages) {
      if (!pages.insert(page.index()).second) return fmt::format("page {} is held twice", page.index());
    }
  }
  const auto held_pages = static_cast<int64_t>(pages.size());
  const auto held_slots = static_cast<int64_t>(slots.size());
  if (holders != s.holders || holders > s.options.max_running)
    return fmt::format("{} holders, counted {}", holders, s.holders);
  if (held_pages != s.kv.in_use()) return fmt::format("{} pages held, {} in use", held_pages, s.kv.in_use());
  if (held_slots != s.slots.in_use()) return fmt::format("{} slots held, {} in use", held_slots, s.slots.in_use());
  if (s.arrival_of.size() != s.live.size()) return "the index of ids has strangers";
  return "";
}

}  // namespace perigee
