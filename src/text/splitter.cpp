// The matcher of the eight alternatives and the long-input guard. See splitter.h for the definition.
//
// Called by the tokenizer only. Backtracking is done by remembering, during one forward scan of a letter run, the one
// place to which the pattern could give characters back; so each character is looked at a bounded number of times.
#include "text/splitter.h"

#include "text/unicode.h"
#include "text/utf8.h"

namespace perigee {
namespace {

using namespace char_class;

constexpr size_t kNone = static_cast<size_t>(-1);

/// One character's class and length in bytes; length 0 at the end of the text.
struct Char {
  uint8_t classes;
  uint32_t length;
};

class Matcher {
 public:
  explicit Matcher(std::string_view text) : text_(text), table_(char_class_table()) {}

  size_t match(size_t start) const {
    const Char first = at(start);
    if (first.classes & kHan) return run_end(start, kHan);
    if (const size_t end = match_word(start, first); end != kNone) return end;
    if (first.classes & kNumber) return match_numbers(start);
    if (const size_t end = match_symbols(start); end != kNone) return end;
    return match_space(start);
  }

 private:
  Char at(size_t position) const {
    if (position >= text_.size()) return {0, 0};
    uint32_t length;
    const char32_t code_point = decode_valid_utf8(text_.data() + position, length);
    return {table_[code_point], length};
  }

  /// The end of the run of characters that have one of the bits of `mask`.
  size_t run_end(size_t position, uint8_t mask) const {
    for (Char c = at(position); c.classes & mask; c = at(position)) position += c.length;
    return position;
  }

  /// What UP* and then LOW* see from one position, and the end of the last LOW within the UP run (kNone without one).
  struct Letters {
    size_t upper_end;
    size_t last_lower_end;
    size_t lower_end;
  };

  Letters scan_letters(size_t position) const {
    size_t last_lower_end = kNone;
    for (Char c = at(position); c.classes & kUpper; c = at(position)) {
      position += c.length;
      if (c.classes & kLower) last_lower_end = position;
    }
    return {position, last_lower_end, run_end(position, kLower)};
  }

  /// UP* LOW+: when nothing lower follows, UP* gives characters back until LOW+ can take one, which is then all it
  /// takes.
  static size_t lower_word_end(const Letters& letters) {
    return letters.lower_end > letters.upper_end ? letters.lower_end : letters.last_lower_end;
  }

  /// Alternatives 2 and 3. The prefix is tried first; without it, only a mark can still begin a word, as UP and LOW.
  size_t match_word(size_t start, Char first) const {
    const bool has_prefix = (first.classes & (kNewline | kLetter | kNumber)) == 0;
    const size_t word = has_prefix ? start + first.length : start;
    const Letters letters = scan_letters(word);
    size_t end = lower_word_end(letters);
    if (end == kNone && has_prefix && (first.classes & kUpper)) end = lower_word_end(scan_letters(start));
    if (end == kNone && letters.upper_end > word) end = letters.lower_end;
    return end == kNone ? kNone : contraction_end(end);
  }

  /// CONTR: the end of an apostrophe and its letters, or `position`.
  size_t contraction_end(size_t position) const {
    if (position >= text_.size() || text_[position] != '\'') return position;
    const std::string_view tail = text_.substr(position + 1, 2);
    const auto lower = [&](size_t i) { return i < tail.size() ? static_cast<char>(tail[i] | 0x20) : '\0'; };
    const char one = lower(0);
    const char two = lower(1);
    if (one == 's' || one == 't' || one == 'm' || one == 'd') return position + 2;
    if ((two == 'e' && (one == 'r' || one == 'v')) || (one == 'l' && two == 'l')) return position + 3;
    if (tail == "\u017F") return position + 3;
    return position;
  }

  size_t match_numbers(size_t position) const {
    for (int i = 0; i < 3; ++i) {
      const Char c = at(position);
      if ((c.classes & kNumber) == 0) break;
      position += c.length;
    }
    return position;
  }

  /// Alternative 5.
  size_t match_symbols(size_t start) const {
    size_t position = start + (text_[start] == ' ' ? 1 : 0);
    const size_t symbols = position;
    for (Char c = at(position); c.length > 0 && (c.classes & (kSpace | kLetter | kNumber)) == 0; c = at(position)) {
      position += c.length;
    }
    return position == symbols ? kNone : run_end(position, kNewline);
  }

  /// Alternatives 6 to 8; the character at `start` is white space, as all others have been taken.
  size_t match_space(size_t start) const {
    size_t position = start;
    size_t last = start;
    size_t newline_end = kNone;
    for (Char c = at(position); c.classes & kSpace; c = at(position)) {
      last = position;
      position += c.length;
      if (c.classes & kNewline) newline_end = position;
    }
    if (newline_end != kNone) return newline_end;
    // The last space is left to the next piece, unless nothing follows or nothing else would remain.
    return position == text_.size() || last == start ? position : last;
  }

  std::string_view text_;
  const uint8_t* table_;
};

}  // namespace

size_t next_piece(std::string_view text, size_t start) {
  return Matcher(text).match(start);
}

std::vector<size_t> long_input_cuts(std::string_view text, const LongInputLimits& limits) {
  std::vector<size_t> cuts;
  const size_t shortest = limits.block < limits.run ? limits.block : limits.run;
  if (text.size() > shortest) {
    const uint8_t* table = char_class_table();
    size_t in_block = 0;
    size_t in_run = 0;
    bool run_is_space = false;
    for (size_t position = 0; position < text.size();) {
      uint32_t length;
      const bool is_space = table[decode_valid_utf8(text.data() + position, length)] & kPythonSpace;
      if (in_block == limits.block) {
        cuts.push_back(position);
        in_block = 0;
      }
      if (in_block == 0) {
        in_run = 1;
      } else if (is_space != run_is_space) {
        in_run = 1;
      } else if (++in_run > limits.run) {
        cuts.push_back(position);
        in_run = 1;
      }
      run_is_space = is_space;
      ++in_block;
      position += length;
    }
  }
  if (!text.empty()) cuts.push_back(text.size());
  return cuts;
}

}  // namespace perigee
