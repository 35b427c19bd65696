// The stop matcher against a plain search, over random texts, stop strings and cuts.
#include "text/stop_matcher.h"

#include <gtest/gtest.h>

#include "base/random.h"

namespace perigee {
namespace {

struct Outcome {
  std::string text;
  std::string stop;
  bool operator==(const Outcome&) const = default;
};

/// What StopMatcher promises, by trying every end position and every stop string.
Outcome plain_search(const std::string& text, const std::vector<std::string>& stops, bool keep_stop) {
  for (size_t end = 1; end <= text.size(); ++end) {
    const std::string* best = nullptr;
    for (const auto& stop : stops) {
      if (stop.empty() || !std::string_view(text).substr(0, end).ends_with(stop)) continue;
      if (best == nullptr || stop.size() > best->size()) best = &stop;
    }
    if (best != nullptr) return {text.substr(0, keep_stop ? end : end - best->size()), *best};
  }
  return {text, {}};
}

TEST(StopMatcher, HoldsBackOnlyWhatMayBecomeAStop) {
  StopMatcher matcher({"STOP", "Sun"});
  EXPECT_EQ(matcher.push("a S"), "a ");
  EXPECT_EQ(matcher.push("T"), "");
  EXPECT_EQ(matcher.push("A"), "STA");
  EXPECT_EQ(matcher.push("Su"), "");
  EXPECT_EQ(matcher.push("S"), "Su");
  EXPECT_EQ(matcher.push("TOP it"), "");
  EXPECT_TRUE(matcher.matched());
  EXPECT_EQ(matcher.matched_stop(), "STOP");
  EXPECT_EQ(matcher.push("more"), "");
  EXPECT_EQ(matcher.flush(), "");
}

TEST(StopMatcher, FlushReturnsTheRest) {
  StopMatcher matcher({"\n\n"});
  EXPECT_EQ(matcher.push("end\n"), "end");
  EXPECT_EQ(matcher.flush(), "\n");
  EXPECT_FALSE(matcher.matched());
  EXPECT_EQ(matcher.push("\n"), "");  // what was flushed is gone: a match does not reach back over it
  EXPECT_EQ(matcher.flush(), "\n");
}

TEST(StopMatcher, NoStops) {
  StopMatcher matcher({""});
  EXPECT_EQ(matcher.push("abc"), "abc");
  EXPECT_FALSE(matcher.matched());
}

TEST(StopMatcher, KeepsTheStopOnRequest) {
  StopMatcher matcher({"b"}, true);
  EXPECT_EQ(matcher.push("abc"), "ab");
}

TEST(StopMatcher, EqualsAPlainSearchForEveryCut) {
  PhiloxStream random(7);
  const auto random_text = [&](uint64_t longest) {
    std::string text;
    for (uint64_t n = random.next_below(longest + 1); n > 0; --n) text += static_cast<char>('a' + random.next_below(2));
    return text;
  };
  int found = 0;
  for (int round = 0; round < 20000; ++round) {
    std::vector<std::string> stops;
    for (uint64_t n = random.next_below(4); n > 0; --n) stops.push_back(random_text(6));
    const std::string text = random_text(24);
    const bool keep_stop = random.next_below(2) == 1;
    const Outcome expected = plain_search(text, stops, keep_stop);
    StopMatcher matcher(stops, keep_stop);
    std::string shown;
    for (size_t at = 0; at < text.size();) {
      const size_t size = 1 + random.next_below(5);
      shown += matcher.push(std::string_view(text).substr(at, size));
      // Nothing may be held that could not become a stop: what is shown is a prefix of the final text.
      ASSERT_TRUE(expected.text.starts_with(shown));
      at += size;
    }
    shown += matcher.flush();
    const Outcome actual{shown, matcher.matched() ? matcher.matched_stop() : ""};
    ASSERT_EQ(actual, expected) << text;
    found += matcher.matched() ? 1 : 0;
  }
  EXPECT_GT(found, 5000);
  EXPECT_LT(found, 19000);
}

}  // namespace
}  // namespace perigee
