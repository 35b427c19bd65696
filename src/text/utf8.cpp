// The table of well-formed byte sequences (Unicode Standard, table 3-7) as code, and the loops over it.
//
// Called by the tokenizer and the detokenizer for all text that enters or leaves; plain ASCII takes a fast path of
// eight bytes at a time.
#include "text/utf8.h"

#include <cstring>

namespace perigee {
namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";

/// The length of the ASCII run at `position`.
size_t ascii_run(std::string_view text, size_t position) {
  size_t end = position;
  for (; end + 8 <= text.size(); end += 8) {
    uint64_t word;
    std::memcpy(&word, text.data() + end, 8);
    if (word & 0x8080808080808080U) break;
  }
  while (end < text.size() && static_cast<unsigned char>(text[end]) < 0x80) ++end;
  return end - position;
}

/// Appends `text` with replacements; stops before an incomplete end and returns where.
size_t repair_into(std::string& out, std::string_view text) {
  size_t position = 0;
  while (position < text.size()) {
    const size_t run = ascii_run(text, position);
    out.append(text, position, run);
    position += run;
    if (position == text.size()) break;
    const Utf8Step step = utf8_step(text, position);
    if (step.status == Utf8Status::incomplete) break;
    out.append(step.status == Utf8Status::valid ? text.substr(position, step.length) : kReplacement);
    position += step.length;
  }
  return position;
}

}  // namespace

Utf8Step utf8_step(std::string_view text, size_t position) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[position + i]); };
  const unsigned lead = byte(0);
  if (lead < 0x80) return {lead, 1, Utf8Status::valid};
  if (lead < 0xC2 || lead > 0xF4) return {0xFFFD, 1, Utf8Status::invalid};
  const unsigned length = lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
  // Only the second byte has a range that depends on the lead: it rules out overlong forms, surrogates and > U+10FFFF.
  unsigned low = lead == 0xE0 ? 0xA0 : lead == 0xF0 ? 0x90 : 0x80;
  unsigned high = lead == 0xED ? 0x9F : lead == 0xF4 ? 0x8F : 0xBF;
  char32_t code_point = lead & (0xFFU >> (length + 1));
  for (unsigned i = 1; i < length; ++i) {
    if (position + i == text.size()) return {0xFFFD, static_cast<uint8_t>(i), Utf8Status::incomplete};
    const unsigned next = byte(i);
    if (next < low || next > high) return {0xFFFD, static_cast<uint8_t>(i), Utf8Status::invalid};
    code_point = code_point << 6 | (next & 0x3F);
    low = 0x80;
    high = 0xBF;
  }
  return {code_point, static_cast<uint8_t>(length), Utf8Status::valid};
}

bool is_valid_utf8(std::string_view text) {
  size_t position = 0;
  while (true) {
    position += ascii_run(text, position);
    if (position == text.size()) return true;
    const Utf8Step step = utf8_step(text, position);
    if (step.status != Utf8Status::valid) return false;
    position += step.length;
  }
}

std::string repair_utf8(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  if (repair_into(out, text) < text.size()) out.append(kReplacement);
  return out;
}

std::string repair_utf8_prefix(std::string_view text, size_t& held) {
  std::string out;
  out.reserve(text.size());
  held = text.size() - repair_into(out, text);
  return out;
}

void append_utf8(std::string& out, char32_t code_point) {
  const auto tail = [&](int shift) { out.push_back(static_cast<char>(0x80 | ((code_point >> shift) & 0x3F))); };
  if (code_point < 0x80) {
    out.push_back(static_cast<char>(code_point));
  } else if (code_point < 0x800) {
    out.push_back(static_cast<char>(0xC0 | code_point >> 6));
    tail(0);
  } else if (code_point > 0x10FFFF || (code_point >= 0xD800 && code_point < 0xE000)) {
    out.append(kReplacement);
  } else if (code_point < 0x10000) {
    out.push_back(static_cast<char>(0xE0 | code_point >> 12));
    tail(6);
    tail(0);
  } else {
    out.push_back(static_cast<char>(0xF0 | code_point >> 18));
    tail(12);
    tail(6);
    tail(0);
  }
}

}  // namespace perigee
