// The tokenizer files of a synthetic checkpoint: the 256 bytes in the order of the real file, then pairs of earlier
// tokens.

#include <set>

#include "base/random.h"
#include "model/synth.h"

namespace perigee {
namespace {

std::string base64(std::string_view bytes) {
  constexpr std::string_view kAlphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string out;
  for (size_t i = 0; i < bytes.size(); i += 3) {
    uint32_t group = 0;
    for (size_t j = 0; j < 3; ++j)
      group = (group << 8) | (i + j < bytes.size() ? static_cast<uint8_t>(bytes[i + j]) : 0);
    for (size_t j = 0; j < 4; ++j) out += i + j > bytes.size() ? '=' : kAlphabet[(group >> (18 - 6 * j)) & 63];
  }
  return out;
}

/// Printable bytes first, then the rest: the byte order the released file uses.
std::vector<std::string> byte_tokens() {
  std::vector<std::string> tokens;
  const auto printable = [](int b) { return (b >= 33 && b <= 126) || (b >= 161 && b <= 172) || b >= 174; };
  for (const bool wanted : {true, false}) {
    for (int b = 0; b < 256; ++b) {
      if (printable(b) == wanted) tokens.emplace_back(1, static_cast<char>(b));
    }
  }
  return tokens;
}

}  // namespace

std::string synth_tokenizer_model(int64_t vocab, uint64_t seed) {
  std::vector<std::string> tokens = byte_tokens();
  std::set<std::string> known(tokens.begin(), tokens.end());
  // Words grow from letters weighted by their frequency in English; a leading space starts a word.
  constexpr std::string_view kLetters = "eeeeeetttttaaaaooooiiiinnnnsssshhhrrrddlluuccmmwwffggyyppbbvk";
  std::vector<std::string> pieces;
  for (const char c : kLetters) pieces.emplace_back(1, c);
  for (const char c : kLetters) pieces.push_back(std::string(" ") + c);
  PhiloxStream random(seed, 0x746f6b);
  while (static_cast<int64_t>(tokens.size()) < vocab - kSpecialSlots) {
    const std::string& left = pieces[random.next_below(pieces.size())];
    const std::string& right = pieces[random.next_below(pieces.size())];
    std::string joined = left + right;
    // A space only starts a token, as the pre-tokenizer would have it.
    if (right[0] == ' ' || joined.size() > 12 || !known.insert(joined).second) continue;
    tokens.push_back(joined);
    pieces.push_back(std::move(joined));
  }
  std::string text;
  for (size_t rank = 0; rank < tokens.size(); ++rank) text += fmt::format("{} {}\n", base64(tokens[rank]), rank);
  return text;
}

std::string synth_tokenizer_config(int64_t vocab) {
  struct Special {
    int64_t slot;
    std::string_view name;
    bool special;
  };
  constexpr Special kSpecials[] = {
      {0, "[BOS]", true},
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
      {65, "<osagent_mode>", true},
      {254, "[UNK]", true},
      {255, "[PAD]", true},
  };
  json::object added;
  for (const Special& s : kSpecials) {
    added[std::to_string(vocab - kSpecialSlots + s.slot)] = {{"content", s.name},    {"lstrip", false},
                                                             {"normalized", false},  {"rstrip", false},
                                                             {"single_word", false}, {"special", s.special}};
  }
  const json::object config = {{"added_tokens_decoder", added},
                               {"bos_token", "[BOS]"},
                               {"eos_token", "[EOS]"},
                               {"pad_token", "[PAD]"},
                               {"unk_token", "[UNK]"},
                               {"model_max_length", 1048576},
                               {"tokenizer_class", "TikTokenTokenizer"}};
  return json_dump(config);
}

}  // namespace perigee
