// Finds the first of several stop strings in a text that arrives in pieces.
//
// Called by the API layer with the visible text of one channel before it is sent; one matcher per stream and channel,
// not thread-safe. Only text that can still become a stop string is held back. The result does not depend on how the
// text was cut: the match that ends first wins, and of those the longest.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace perigee {

/// Linear in the text for a given set of stop strings.
class StopMatcher {
 public:
  /// Empty strings are ignored. With `keep_stop` the matched string stays at the end of the text.
  explicit StopMatcher(std::vector<std::string> stops, bool keep_stop = false);

  /// Takes the next piece and returns the text that is now safe to show. After a match: the text up to it, then
  /// nothing.
  std::string push(std::string_view text);
  /// The end of the stream: what was held back.
  std::string flush();

  bool matched() const { return matched_ >= 0; }
  /// The stop string found; only if matched().
  const std::string& matched_stop() const { return patterns_[static_cast<size_t>(matched_)].text; }

 private:
  /// One stop string with its Knuth-Morris-Pratt borders; `state` is the length of the prefix that ends the text so
  /// far.
  struct Pattern {
    std::string text;
    std::vector<uint32_t> border;
    uint32_t state = 0;
  };

  static void advance(Pattern& pattern, char c);

  std::vector<Pattern> patterns_;
  std::string held_;
  bool keep_stop_;
  int matched_ = -1;
};

}  // namespace perigee
