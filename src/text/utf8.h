// UTF-8: stepping through bytes of any quality, and repair by U+FFFD as the WHATWG Encoding Standard does it.
//
// Used by the splitter, the tokenizer and the detokenizer, and by whoever must know whether text from outside is valid.
// Pure functions; nothing is owned.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace perigee {

enum class Utf8Status : uint8_t {
  valid,       ///< a whole character
  invalid,     ///< bytes that cannot begin a character, whatever follows
  incomplete,  ///< a valid beginning of a character, cut by the end of the text
};

/// What stands at one position: a character, or a maximal subpart (Unicode Standard, section 3.9, "U+FFFD substitution
/// of maximal subparts") of `length` 1..3 bytes. `code_point` is U+FFFD unless the status is valid.
struct Utf8Step {
  char32_t code_point;
  uint8_t length;
  Utf8Status status;
};

/// Looks at the bytes of `text` from `position` on; position < text.size().
Utf8Step utf8_step(std::string_view text, size_t position);

/// Is every byte part of a whole character? Surrogates, overlong forms and code points above U+10FFFF are not
/// characters.
bool is_valid_utf8(std::string_view text);

/// A copy in which each maximal subpart is replaced by U+FFFD.
std::string repair_utf8(std::string_view text);

/// Like repair_utf8, but an incomplete character at the end is left out and its length (0..3 bytes) told in `held`.
std::string repair_utf8_prefix(std::string_view text, size_t& held);

/// Appends one code point; surrogates and values above U+10FFFF are appended as U+FFFD.
void append_utf8(std::string& out, char32_t code_point);

/// The code point at `position` of valid UTF-8, and its length in bytes. Nothing is checked.
inline char32_t decode_valid_utf8(const char* bytes, uint32_t& length) {
  const auto byte = [bytes](int i) { return static_cast<uint32_t>(static_cast<unsigned char>(bytes[i])); };
  const uint32_t lead = byte(0);
  if (lead < 0x80) {
    length = 1;
    return lead;
  }
  if (lead < 0xE0) {
    length = 2;
    return (lead & 0x1F) << 6 | (byte(1) & 0x3F);
  }
  if (lead < 0xF0) {
    length = 3;
    return (lead & 0x0F) << 12 | (byte(1) & 0x3F) << 6 | (byte(2) & 0x3F);
  }
  length = 4;
  return (lead & 0x07) << 18 | (byte(1) & 0x3F) << 12 | (byte(2) & 0x3F) << 6 | (byte(3) & 0x3F);
}

}  // namespace perigee
