// A small tokenizer for the chat tests and fuzzing: every byte is a token, a few merges join common pieces, and the
// special slots carry K3's names in K3's order.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "text/tokenizer.h"

namespace perigee::testing {

inline std::string base64(std::string_view bytes) {
  constexpr std::string_view kDigits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string out;
  for (size_t i = 0; i < bytes.size(); i += 3) {
    uint32_t word = 0;
    for (size_t k = 0; k < 3; ++k) word = word << 8 | (i + k < bytes.size() ? static_cast<uint8_t>(bytes[i + k]) : 0U);
    for (size_t k = 0; k < 4; ++k) out += i + k > bytes.size() ? '=' : kDigits[word >> (18 - 6 * k) & 63];
  }
  return out;
}

/// `merges`: also know some longer tokens, so that tags arrive in different cuts; one of them ends inside a character.
/// `specials`: names by slot, as of the first special id; all but the XTML markers have the `special` flag.
inline std::string byte_ranks(bool merges) {
  std::vector<std::string> tokens;
  for (int b = 0; b < 256; ++b) tokens.emplace_back(1, static_cast<char>(b));
  if (merges) {
    for (const auto* text :
         {"th", "in", "thin", "think", "re", "ca", "ll", "call", "\": ", " \xF0", " \xF0\x9F", "<|"}) {
      tokens.emplace_back(text);
    }
  }
  std::string ranks;
  for (size_t i = 0; i < tokens.size(); ++i) ranks += base64(tokens[i]) + " " + std::to_string(i) + "\n";
  return ranks;
}

inline std::string special_config(int first, std::string_view leave_out = {}) {
  struct Slot {
    int slot;
    std::string_view name;
    bool special;
  };
  const std::vector<Slot> slots{{0, "[BOS]", true},
                                {1, "[EOS]", true},
                                {2, "<|end_of_msg|>", true},
                                {3, "<|open|>", false},
                                {4, "<|close|>", false},
                                {5, "<|sep|>", false},
                                {6, "[start_header_id]", true},
                                {7, "[end_header_id]", true},
                                {9, "[EOT]", true},
                                {18, "<|media_begin|>", true},
                                {19, "<|media_content|>", true},
                                {20, "<|media_end|>", true},
                                {21, "<|media_pad|>", true},
                                {254, "[UNK]", true},
                                {255, "[PAD]", true}};
  std::string config;
  for (const auto& [slot, name, special] : slots) {
    if (name == leave_out) continue;
    config += (config.empty() ? "" : ",") + ("\"" + std::to_string(first + slot)) + "\":{\"content\":\"" +
              std::string(name) + "\",\"special\":" + (special ? "true" : "false") + "}";
  }
  return "{\"added_tokens_decoder\":{" + config + "}}";
}

/// `leave_out`: the name of a special token that the tokenizer shall lack.
inline Tokenizer byte_tokenizer(bool merges = false, std::string_view leave_out = {}) {
  auto tokenizer = Tokenizer::from_text(byte_ranks(merges), special_config(merges ? 268 : 256, leave_out));
  return std::move(tokenizer).value();
}

}  // namespace perigee::testing
