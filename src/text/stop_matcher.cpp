// Knuth-Morris-Pratt over every stop string at once; see stop_matcher.h.
//
// Each pattern's state says how much of it ends the text so far; the largest state is what must be held back. The
// matcher owns its patterns and the text held.
#include "text/stop_matcher.h"

#include <algorithm>
#include <utility>

namespace perigee {

StopMatcher::StopMatcher(std::vector<std::string> stops, bool keep_stop) : keep_stop_(keep_stop) {
  for (auto& stop : stops) {
    if (stop.empty()) continue;
    Pattern pattern{std::move(stop), {0}, 0};
    for (size_t i = 1; i < pattern.text.size(); ++i) {
      advance(pattern, pattern.text[i]);
      pattern.border.push_back(pattern.state);
    }
    pattern.state = 0;
    patterns_.push_back(std::move(pattern));
  }
}

/// border[i] is the length of the longest proper prefix of the pattern that also ends its first i + 1 characters. The
/// first character always finds state 0 and border[0]; building the table calls this with the entries it has so far.
void StopMatcher::advance(Pattern& pattern, char c) {
  while (pattern.state > 0 && pattern.text[pattern.state] != c) pattern.state = pattern.border[pattern.state - 1];
  if (pattern.text[pattern.state] == c) ++pattern.state;
}

std::string StopMatcher::push(std::string_view text) {
  if (matched()) return {};
  if (patterns_.empty()) return std::string(text);
  for (size_t i = 0; i < text.size(); ++i) {
    size_t longest = 0;
    for (size_t p = 0; p < patterns_.size(); ++p) {
      auto& pattern = patterns_[p];
      advance(pattern, text[i]);
      if (pattern.state < pattern.text.size() || pattern.text.size() <= longest) continue;
      longest = pattern.text.size();
      matched_ = static_cast<int>(p);
    }
    if (!matched()) continue;
    std::string shown = std::exchange(held_, {}) + std::string(text.substr(0, i + 1));
    if (!keep_stop_) shown.resize(shown.size() - longest);
    return shown;
  }
  held_ += text;
  size_t keep = 0;
  for (const auto& pattern : patterns_) keep = std::max<size_t>(keep, pattern.state);
  std::string shown = held_.substr(0, held_.size() - keep);
  held_.erase(0, held_.size() - keep);
  return shown;
}

std::string StopMatcher::flush() {
  for (auto& pattern : patterns_) pattern.state = 0;
  return std::exchange(held_, {});
}

}  // namespace perigee
