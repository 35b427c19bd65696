// Tests of the streaming detokenizer: nothing incomplete comes out, nothing is lost, and any cutting of the bytes gives
// the text that decoding all at once gives.
#include "text/detokenizer.h"

#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

#include "base/random.h"
#include "text/tokenizer.h"
#include "text/utf8.h"

namespace perigee {
namespace {

Tokenizer load_tokenizer() {
  Result<Tokenizer> tokenizer = Tokenizer::load(PERIGEE_SOURCE_DIR "/tests/reference/tokenizer");
  EXPECT_TRUE(tokenizer) << tokenizer.error().message;
  return std::move(*tokenizer);
}

TEST(Detokenizer, HoldsIncompleteCharacters) {
  const Tokenizer tokenizer = load_tokenizer();
  Detokenizer stream(tokenizer);
  EXPECT_EQ(stream.push_bytes(" \xF0\x9F"), " ");
  EXPECT_EQ(stream.push(236), "");            // 0x8E
  EXPECT_EQ(stream.push(231), "\U0001F389");  // 0x89
  EXPECT_EQ(stream.flush(), "");
}

TEST(Detokenizer, LetsGoOfWhatCannotBecomeValid) {
  const Tokenizer tokenizer = load_tokenizer();
  Detokenizer stream(tokenizer);
  EXPECT_EQ(stream.push_bytes("\xF0\x9F"), "");
  EXPECT_EQ(stream.push_bytes("a"), "\uFFFDa");
  EXPECT_EQ(stream.push_bytes("\xE0"), "");
  EXPECT_EQ(stream.push_bytes("\x80"), "\uFFFD\uFFFD");
  EXPECT_EQ(stream.push_bytes("\xFF"), "\uFFFD");
  EXPECT_EQ(stream.push_bytes("\xE4\xB8"), "");
  EXPECT_EQ(stream.push_bytes("\xE4\xB8\x96\xE4"), "\uFFFD\u4E16");
  EXPECT_EQ(stream.flush(), "\uFFFD");
  EXPECT_EQ(stream.flush(), "");
}

TEST(Detokenizer, SpecialTokensContributeTheirNames) {
  const Tokenizer tokenizer = load_tokenizer();
  Detokenizer stream(tokenizer);
  EXPECT_EQ(stream.push_bytes("\xE4\xB8"), "");
  EXPECT_EQ(stream.push(tokenizer.base_size() + 3), "\uFFFD<|open|>");
  EXPECT_EQ(stream.push(tokenizer.base_size() + 8), tokenizer.token_bytes(tokenizer.base_size() + 8));
}

TEST(Detokenizer, RandomTokensGiveTheDecodedText) {
  const Tokenizer tokenizer = load_tokenizer();
  PhiloxStream random(7);
  for (int round = 0; round < 2000; ++round) {
    // Single bytes are the ids below 256, so half of these streams are mostly broken text.
    const uint64_t bound = round % 2 ? 256 : static_cast<uint64_t>(tokenizer.vocab_size());
    std::vector<int32_t> ids(random.next_below(40));
    Detokenizer stream(tokenizer);
    std::string text;
    for (int32_t& id : ids) {
      id = static_cast<int32_t>(random.next_below(bound));
      const std::string part = stream.push(id);
      ASSERT_TRUE(is_valid_utf8(part));
      text += part;
    }
    text += stream.flush();
    ASSERT_EQ(text, tokenizer.decode(ids));
  }
}

TEST(Detokenizer, EveryCutOfAValidTextIsLossless) {
  const Tokenizer tokenizer = load_tokenizer();
  const std::string text = "a\u00E9\u4E16\U0001F389\n\u0301z\U0010FFFF";
  for (size_t i = 0; i <= text.size(); ++i) {
    for (size_t k = i; k <= text.size(); ++k) {
      Detokenizer stream(tokenizer);
      const std::string_view whole = text;
      std::string out = stream.push_bytes(whole.substr(0, i));
      EXPECT_TRUE(is_valid_utf8(out));
      // As much as can be is let out at once.
      EXPECT_LT(i - out.size(), 4U);
      out += stream.push_bytes(whole.substr(i, k - i));
      out += stream.push_bytes(whole.substr(k));
      EXPECT_EQ(out, text);
      EXPECT_EQ(stream.flush(), "");
    }
  }
}

}  // namespace
}  // namespace perigee
