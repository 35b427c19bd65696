// What must be equal bit for bit, whatever the weights: a request's answer may not depend on how its prompt was cut (at
// multiples of the KDA chunk), on its company in the batch, on pages, slots or page size, on the number of threads, nor
// on speculation that was not committed. Caches start as NaN (ModelRig), so stale memory that is read shows as well.
//
// Runs on the goldens' checkpoints (odd widths) and on a synthetic one with the real head widths.

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <tuple>

#include "base/random.h"
#include "cpu/ops.h"
#include "model/support/golden.h"
#include "model/support/model_rig.h"
#include "model/synth.h"

namespace perigee::test {
namespace {

constexpr CacheShape kShape{.kv_dtype = DType::bf16, .page_size = 16, .pages = 40, .slots = 6};

/// The checkpoint folder of a test's model; the synthetic one is written on first use.
std::string model_folder(const std::string& name) {
  if (name != "synth-tiny") return golden_folder(name);
  static const std::string folder = [] {
    std::string path = std::filesystem::temp_directory_path() / "perigee-equality-XXXXXX";
    PERIGEE_CHECK(mkdtemp(path.data()) != nullptr, "cannot make {}", path);
    write_synthetic_checkpoint(synth_config("tiny").value(), path, {.seed = 5, .threads = 2, .quiet = true});
    return path;
  }();
  static const struct Remover {
    ~Remover() { std::filesystem::remove_all(folder); }
  } remover;
  return folder;
}

/// Bits, so that -0 differs from 0 and NaN equals itself; a NaN in logits is a failure of its own.
testing::AssertionResult same_bits(const Row& a, const Row& b) {
  if (a.size() != b.size()) return testing::AssertionFailure() << a.size() << " values against " << b.size();
  for (size_t i = 0; i < a.size(); ++i) {
    if (std::isnan(a[i]) || std::bit_cast<uint32_t>(a[i]) != std::bit_cast<uint32_t>(b[i])) {
      return testing::AssertionFailure() << "value " << i << ": " << a[i] << " against " << b[i];
    }
  }
  return testing::AssertionSuccess();
}

testing::AssertionResult same_bits(std::span<const Row> a, std::span<const Row> b) {
  if (a.size() != b.size()) return testing::AssertionFailure() << a.size() << " rows against " << b.size();
  for (size_t i = 0; i < a.size(); ++i) {
    if (auto result = same_bits(a[i], b[i]); !result) return result << " in row " << i;
  }
  return testing::AssertionSuccess();
}

class EqualityTest : public testing::TestWithParam<std::tuple<std::string, bool>> {
 protected:
  const Ops& ops_ = std::get<1>(GetParam()) ? cpu_ops() : reference_ops();
  const Model model_ = load_model(model_folder(std::get<0>(GetParam())), ops_);

  ModelRig rig(int threads = 2, const CacheShape& shape = kShape) const {
    return ModelRig(model_, ops_, threads, shape);
  }

  std::vector<int32_t> tokens(size_t count, uint64_t seed) const {
    PhiloxStream random(seed);
    std::vector<int32_t> out(count);
    for (int32_t& token : out) {
      token = static_cast<int32_t>(random.next_below(static_cast<uint64_t>(model_.config().vocab)));
    }
    return out;
  }

  /// `count` tokens after the prompt, greedily, one a step.
  static std::vector<int32_t> continue_greedily(ModelRig& rig, TestSequence& sequence, Row logits, size_t count) {
    std::vector<int32_t> out;
    while (out.size() < count) {
      out.push_back(argmax(logits));
      logits = rig.step(sequence, std::span(&out.back(), 1)).back();
    }
    return out;
  }
};

/// The first `count` pages after `first`.
std::vector<int32_t> pages_from(int32_t first, int32_t count) {
  std::vector<int32_t> pages;
  for (int32_t i = 0; i < count; ++i) pages.push_back(first + i);
  return pages;
}

TEST_P(EqualityTest, ChunkedPrefillEqualsWhole) {
  const auto prompt = tokens(150, 1);
  const std::span<const int32_t> all(prompt);
  ModelRig whole_rig = rig();
  TestSequence whole{.slot = 0, .pages = pages_from(0, 10)};
  const auto want = whole_rig.step(whole, all);
  for (const std::vector<size_t>& cuts : {std::vector<size_t>{64, 128, 150}, {128, 150}, {64, 150}}) {
    ModelRig chunked_rig = rig();
    TestSequence chunked{.slot = 4, .pages = pages_from(17, 10)};
    std::vector<Row> got;
    for (const size_t cut : cuts) {
      for (Row& row : chunked_rig.step(chunked, all.subspan(got.size(), cut - got.size()))) got.push_back(row);
    }
    EXPECT_TRUE(same_bits(got, want)) << "cuts from " << cuts.front();
    EXPECT_TRUE(same_bits(chunked_rig.everything(chunked), whole_rig.everything(whole)))
        << "cuts from " << cuts.front();
  }
}

/// The work of three requests, given to a step function one request at a time or together.
struct Company {
  std::vector<std::vector<int32_t>> prompts;
  std::vector<std::vector<int32_t>> next;  ///< each request's second step
  std::vector<TestSequence> sequences;
};

TEST_P(EqualityTest, AloneEqualsInABatch) {
  // Second step: a decode row, a long prefill and a short one, their pages interleaved and slots in no order.
  const Company company{{tokens(33, 1), tokens(64, 2), tokens(7, 3)},
                        {tokens(1, 4), tokens(75, 5), tokens(5, 6)},
                        {{.slot = 5, .pages = {7, 0, 31}},
                         {.slot = 1, .pages = {3, 39, 2, 1, 8, 30, 20, 9, 10}},
                         {.slot = 3, .pages = {38, 4}}}};
  std::vector<Row> first_alone;
  std::vector<Row> second_alone;
  Row caches_alone;
  for (size_t i = 0; i < 3; ++i) {
    ModelRig alone = rig();
    TestSequence sequence{.slot = 0, .pages = pages_from(0, 9)};
    for (Row& row : alone.step(sequence, company.prompts[i])) first_alone.push_back(row);
    for (Row& row : alone.step(sequence, company.next[i])) second_alone.push_back(row);
    const Row caches = alone.everything(sequence);
    caches_alone.insert(caches_alone.end(), caches.begin(), caches.end());
  }
  ModelRig together = rig();
  auto sequences = company.sequences;
  std::vector<TestPiece> first;
  std::vector<TestPiece> second;
  for (size_t i = 0; i < 3; ++i) {
    first.push_back({&sequences[i], company.prompts[i]});
    second.push_back({&sequences[i], company.next[i]});
  }
  EXPECT_TRUE(same_bits(together.step(first), first_alone));
  EXPECT_TRUE(same_bits(together.step(second), second_alone));
  Row caches_together;
  for (const TestSequence& sequence : sequences) {
    const Row caches = together.everything(sequence);
    caches_together.insert(caches_together.end(), caches.begin(), caches.end());
  }
  EXPECT_TRUE(same_bits(caches_together, caches_alone));
}

TEST_P(EqualityTest, OrderInTheBatchDoesNotMatter) {
  const auto a = tokens(20, 1);
  const auto b = tokens(1, 2);
  std::vector<std::vector<Row>> answers;
  for (const bool swapped : {false, true}) {
    ModelRig r = rig();
    TestSequence one{.slot = 2, .pages = {5, 6}};
    TestSequence two{.slot = 0, .pages = {1}};
    std::vector<TestPiece> pieces = {{&one, a}, {&two, b}};
    if (swapped) std::swap(pieces[0], pieces[1]);
    auto rows = r.step(pieces);
    if (swapped) std::rotate(rows.begin(), rows.begin() + 1, rows.end());
    answers.push_back(std::move(rows));
  }
  EXPECT_TRUE(same_bits(answers[0], answers[1]));
}

TEST_P(EqualityTest, ThreadsDoNotMatter) {
  const auto prompt = tokens(90, 1);
  const auto decode = tokens(1, 2);
  std::vector<std::vector<Row>> answers;
  for (const int threads : {1, 2, 3}) {
    ModelRig r = rig(threads);
    TestSequence a{.slot = 0, .pages = pages_from(0, 8)};
    TestSequence b{.slot = 1, .pages = pages_from(8, 8)};
    auto rows = r.step(a, prompt);
    const std::vector<TestPiece> mixed = {{&a, decode}, {&b, prompt}};
    for (Row& row : r.step(mixed)) rows.push_back(std::move(row));
    rows.push_back(r.everything(a));
    rows.push_back(r.everything(b));
    answers.push_back(std::move(rows));
  }
  EXPECT_TRUE(same_bits(answers[0], answers[1]));
  EXPECT_TRUE(same_bits(answers[0], answers[2]));
}

TEST_P(EqualityTest, PageSizeDoesNotMatter) {
  const auto prompt = tokens(130, 1);
  const auto decode = tokens(1, 2);
  std::vector<std::vector<Row>> answers;
  for (const int64_t page_size : {16, 64, 7}) {
    ModelRig r = rig(2, {.kv_dtype = DType::bf16, .page_size = page_size, .pages = 30, .slots = 1});
    TestSequence sequence{.slot = 0, .pages = pages_from(0, 30)};
    std::reverse(sequence.pages.begin(), sequence.pages.end());
    auto rows = r.step(sequence, prompt);
    rows.push_back(r.step(sequence, decode).back());
    rows.push_back(r.everything(sequence));
    answers.push_back(std::move(rows));
  }
  EXPECT_TRUE(same_bits(answers[0], answers[1]));
  EXPECT_TRUE(same_bits(answers[0], answers[2]));
}

TEST_P(EqualityTest, WantedRowsDoNotMatter) {
  const auto prompt = tokens(70, 1);
  ModelRig all = rig();
  ModelRig last = rig();
  TestSequence a{.slot = 0, .pages = pages_from(0, 5)};
  TestSequence b = a;
  const TestPiece piece{&b, prompt};
  const auto rows = last.step_last(std::span(&piece, 1));
  ASSERT_EQ(rows.size(), 1U);
  EXPECT_TRUE(same_bits(rows[0], all.step(a, prompt).back()));
}

TEST_P(EqualityTest, AForkReadsItsSourceSlotAndLeavesItAlone) {
  const auto prompt = tokens(40, 1);
  for (const size_t count : {size_t{1}, size_t{6}}) {
    const auto next = tokens(count, 2);
    ModelRig straight = rig();
    TestSequence lone{.slot = 0, .pages = pages_from(0, 4)};
    straight.step(lone, prompt);
    const auto want = straight.step(lone, next);

    ModelRig forked = rig();
    TestSequence parent{.slot = 2, .pages = pages_from(0, 4)};
    forked.step(parent, prompt);
    const Row before = forked.everything(parent);
    TestSequence child = parent;
    child.slot = 4;
    child.source = 2;
    child.pages = {0, 1, 9, 10};  // two full pages shared; the third is copied below by feeding its tokens' rows again
    TestSequence refill{.slot = 5, .pages = child.pages};
    forked.step(refill, prompt);  // fills pages 9 and, with equal rows, 0 and 1
    EXPECT_TRUE(same_bits(forked.step(child, next), want));
    EXPECT_TRUE(same_bits(forked.everything(child), straight.everything(lone)));
    EXPECT_TRUE(same_bits(forked.everything(parent), before)) << "the parent's caches changed";
    EXPECT_TRUE(same_bits(forked.step(parent, next), want));
  }
}

TEST_P(EqualityTest, AFreshSequenceIgnoresItsSlotsPast) {
  const auto old = tokens(50, 1);
  const auto prompt = tokens(20, 2);
  ModelRig clean = rig();
  TestSequence a{.slot = 0, .pages = pages_from(0, 4)};
  const auto want = clean.step(a, prompt);
  ModelRig used = rig();
  TestSequence earlier{.slot = 0, .pages = pages_from(0, 4)};
  used.step(earlier, old);
  TestSequence b{.slot = 0, .pages = pages_from(0, 4)};
  EXPECT_TRUE(same_bits(used.step(b, prompt), want));
  EXPECT_TRUE(same_bits(used.everything(b), clean.everything(a)));
}

TEST_P(EqualityTest, UncommittedRowsLeaveNoTrace) {
  const auto prompt = tokens(30, 1);
  const auto rest = tokens(3, 3);
  struct Case {
    size_t rows, commit;
  };
  for (const auto& [rows, commit] : {Case{5, 2}, Case{5, 4}, Case{100, 70}, Case{100, 64}, Case{2, 1}}) {
    const auto draft = tokens(rows, 2);
    const std::span<const int32_t> all(draft);
    ModelRig straight = rig();
    TestSequence a{.slot = 0, .pages = pages_from(0, 9)};
    straight.step(a, prompt);
    const auto committed = straight.step(a, all.first(commit));
    const auto after = straight.step(a, rest);

    ModelRig speculative = rig();
    TestSequence b{.slot = 1, .pages = pages_from(20, 9)};
    speculative.step(b, prompt);
    const auto verified = speculative.step(b, all, static_cast<int32_t>(commit));
    const std::span<const Row> kept(verified.data(), commit);
    // A lone row takes the recurrent form, more rows the chunked one: those agree to rounding only.
    if (commit > 1) {
      EXPECT_TRUE(same_bits(kept, committed)) << rows << " rows, " << commit << " committed";
      EXPECT_TRUE(same_bits(speculative.step(b, rest), after)) << rows << " rows, " << commit << " committed";
      EXPECT_TRUE(same_bits(speculative.everything(b), straight.everything(a)));
    } else {
      EXPECT_EQ(argmax(kept[0]), argmax(committed[0]));
      EXPECT_EQ(argmax(speculative.step(b, rest).back()), argmax(after.back()));
    }
  }
}

TEST_P(EqualityTest, NothingCommittedChangesNothing) {
  const auto prompt = tokens(30, 1);
  const auto draft = tokens(4, 2);
  const auto rest = tokens(3, 3);
  ModelRig straight = rig();
  TestSequence a{.slot = 0, .pages = pages_from(0, 4)};
  straight.step(a, prompt);
  ModelRig speculative = rig();
  TestSequence b{.slot = 1, .pages = pages_from(20, 4)};
  speculative.step(b, prompt);
  speculative.step(b, draft, 0);
  EXPECT_TRUE(same_bits(speculative.everything(b), straight.everything(a)));
  EXPECT_TRUE(same_bits(speculative.step(b, rest), straight.step(a, rest)));
}

TEST_P(EqualityTest, GreedyContinuationDoesNotDependOnCompany) {
  constexpr size_t kCount = 32;
  const std::vector<std::vector<int32_t>> prompts = {tokens(21, 1), tokens(9, 2), tokens(40, 3)};
  std::vector<std::vector<int32_t>> alone;
  for (const auto& prompt : prompts) {
    ModelRig r = rig();
    TestSequence sequence{.slot = 0, .pages = pages_from(0, 5)};
    Row logits = r.step(sequence, prompt).back();
    alone.push_back(continue_greedily(r, sequence, std::move(logits), kCount));
  }
  // Together: each joins a step later than the one before it, so decode rows meet prefills.
  ModelRig r = rig();
  std::vector<TestSequence> sequences = {{.slot = 3, .pages = pages_from(0, 5)},
                                         {.slot = 0, .pages = pages_from(10, 5)},
                                         {.slot = 1, .pages = pages_from(20, 5)}};
  std::vector<std::vector<int32_t>> together(3);
  for (size_t step = 0; step < kCount + 2; ++step) {
    std::vector<TestPiece> pieces;
    std::vector<size_t> who;
    for (size_t i = 0; i < 3; ++i) {
      if (i > step || together[i].size() == kCount) continue;
      pieces.push_back({&sequences[i], together[i].empty() ? std::span<const int32_t>(prompts[i])
                                                           : std::span<const int32_t>(&together[i].back(), 1)});
      who.push_back(i);
    }
    const auto logits = r.step_last(pieces);
    for (size_t i = 0; i < who.size(); ++i) together[who[i]].push_back(argmax(logits[i]));
  }
  EXPECT_EQ(together, alone);
}

INSTANTIATE_TEST_SUITE_P(Models, EqualityTest,
                         testing::Values(std::tuple("k3", false), std::tuple("kimi-linear", false),
                                         std::tuple("k3", true), std::tuple("k3-wide-head", true),
                                         std::tuple("kimi-linear", true), std::tuple("synth-tiny", true)),
                         [](const auto& info) {
                           std::string name = std::get<0>(info.param);
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name + (std::get<1>(info.param) ? "_fast" : "_reference");
                         });

}  // namespace
}  // namespace perigee::test
