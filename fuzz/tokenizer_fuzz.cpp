// Fuzzes the tokenizer: vocabulary files as they come from a checkpoint, and texts as they come from a request.
//
// The input's first byte chooses. 'v': "model NUL config" goes to the loader, which must answer with a tokenizer or an
// error. Anything else: the rest is a text, which must survive encoding, decoding and any streaming of its tokens.
#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/check.h"
#include "text/detokenizer.h"
#include "text/tokenizer.h"
#include "text/utf8.h"

namespace perigee {
namespace {

/// 256 single bytes and a few merges that overlap, with two special names of which one begins the other.
Tokenizer make_tokenizer() {
  static constexpr std::string_view kDigits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string model;
  for (unsigned byte = 0; byte < 256; ++byte)
    model += fmt::format("{}{}== {}\n", kDigits[byte >> 2], kDigits[(byte & 3) << 4], byte);
  // "aa", "ab", "ba", " a", "aaaa", "\n\n", and the first two bytes of many Han characters.
  model += "YWE= 256\nYWI= 257\nYmE= 258\nIGE= 259\nYWFhYQ== 260\nCgo= 261\n5Lg= 262\n";
  Result<Tokenizer> tokenizer = Tokenizer::from_text(
      model,
      R"({"added_tokens_decoder":{"263":{"content":"<|a|>","special":true},"264":{"content":"<|a|>b"}},"eos_token":"<|a|>"})");
  PERIGEE_CHECK(tokenizer.ok(), "the fuzzer's own vocabulary");
  return std::move(*tokenizer);
}

void check_text(const Tokenizer& tokenizer, std::string_view text) {
  const std::string repaired = repair_utf8(text);
  PERIGEE_CHECK(is_valid_utf8(repaired), "repair leaves invalid UTF-8");
  for (const Specials specials : {Specials::as_text, Specials::as_ids}) {
    const std::vector<int32_t> ids = tokenizer.encode(text, specials);
    PERIGEE_CHECK(tokenizer.decode(ids) == repaired, "the decoded text differs");
    Detokenizer stream(tokenizer);
    std::string streamed;
    for (const int32_t id : ids) {
      PERIGEE_CHECK(specials == Specials::as_ids || !tokenizer.is_special(id), "a special id from plain text");
      streamed += stream.push(id);
      PERIGEE_CHECK(is_valid_utf8(streamed), "the stream lets out invalid UTF-8");
    }
    PERIGEE_CHECK(streamed + stream.flush() == repaired, "the streamed text differs");
  }
  Detokenizer bytes(tokenizer);
  std::string streamed;
  for (size_t i = 0; i < text.size(); ++i) streamed += bytes.push_bytes(text.substr(i, 1));
  PERIGEE_CHECK(streamed + bytes.flush() == repaired, "the bytes streamed one by one differ");
}

}  // namespace
}  // namespace perigee

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const perigee::Tokenizer kTokenizer = perigee::make_tokenizer();
  std::string_view input(reinterpret_cast<const char*>(data), size);
  if (input.empty()) return 0;
  const char kind = input[0];
  input.remove_prefix(1);
  if (kind != 'v') {
    perigee::check_text(kTokenizer, input);
    return 0;
  }
  const size_t end = std::min(input.find('\0'), input.size());
  const auto loaded =
      perigee::Tokenizer::from_text(input.substr(0, end), input.substr(std::min(end + 1, input.size())));
  if (loaded) perigee::check_text(*loaded, input.substr(end));
  return 0;
}
