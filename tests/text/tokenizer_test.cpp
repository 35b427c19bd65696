// Tests of Tokenizer: golden ids from the tiktoken package, special tokens, decoding, and broken vocabulary files.
//
// The golden files are made by tools/check_tokenizer.py; PERIGEE_TOKENIZER_GOLDEN names another folder of the same
// form.
#include "text/tokenizer.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "base/file.h"
#include "base/json.h"
#include "text/byte_pair.h"

namespace perigee {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

using Ids = std::vector<int32_t>;

std::string golden_folder() {
  const char* folder = std::getenv("PERIGEE_TOKENIZER_GOLDEN");
  return folder ? folder : PERIGEE_SOURCE_DIR "/tests/reference/tokenizer";
}

Tokenizer golden_tokenizer() {
  Result<Tokenizer> tokenizer = Tokenizer::load(golden_folder());
  EXPECT_TRUE(tokenizer) << tokenizer.error().message;
  return std::move(*tokenizer);
}

/// The lines of a golden file, each a JSON array.
std::vector<json::array> golden_lines(const std::string& name) {
  const Result<std::string> text = read_file(golden_folder() + "/" + name);
  EXPECT_TRUE(text) << text.error().message;
  std::vector<json::array> lines;
  std::string_view rest = *text;
  while (!rest.empty()) {
    const size_t end = rest.find('\n');
    Result<json::value> line = parse_json(rest.substr(0, end));
    EXPECT_TRUE(line) << line.error().message;
    lines.push_back(line->as_array());
    rest.remove_prefix(end + 1);
  }
  return lines;
}

Ids to_ids(const json::value& value) {
  Ids ids;
  for (const json::value& id : value.as_array()) ids.push_back(id.to_number<int32_t>());
  return ids;
}

Specials to_specials(const json::value& flag) {
  return flag.as_int64() ? Specials::as_ids : Specials::as_text;
}

std::string base64(std::string_view bytes) {
  static constexpr std::string_view kDigits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string out;
  for (size_t i = 0; i < bytes.size(); i += 3) {
    uint32_t bits = 0;
    for (size_t k = 0; k < 3; ++k)
      bits = bits << 8 | (i + k < bytes.size() ? static_cast<unsigned char>(bytes[i + k]) : 0U);
    for (size_t k = 0; k < 4; ++k) out += i + k > bytes.size() ? '=' : kDigits[bits >> (18 - 6 * k) & 63];
  }
  return out;
}

/// A merge file of the 256 single bytes, byte b with rank b, and then `merges`.
std::string model_text(const std::vector<std::string>& merges = {}) {
  std::string out;
  for (int byte = 0; byte < 256; ++byte)
    out += fmt::format("{} {}\n", base64(std::string(1, static_cast<char>(byte))), byte);
  for (size_t i = 0; i < merges.size(); ++i) out += fmt::format("{} {}\n", base64(merges[i]), 256 + i);
  return out;
}

Tokenizer small_tokenizer(const std::vector<std::string>& merges = {}, std::string_view config = "{}") {
  Result<Tokenizer> tokenizer = Tokenizer::from_text(model_text(merges), config);
  EXPECT_TRUE(tokenizer) << tokenizer.error().message;
  return std::move(*tokenizer);
}

/// The error of a broken vocabulary, or "" when it loads.
std::string load_error(std::string_view model, std::string_view config = "{}") {
  const Result<Tokenizer> tokenizer = Tokenizer::from_text(model, config);
  return tokenizer ? "" : tokenizer.error().message;
}

TEST(TokenizerGolden, EncodesAndDecodesAsTiktokenDoes) {
  const Tokenizer tokenizer = golden_tokenizer();
  size_t count = 0;
  for (const json::array& line : golden_lines("cases.jsonl")) {
    const std::string text(line.at(0).as_string());
    const Ids expected = to_ids(line.at(1));
    ASSERT_EQ(tokenizer.encode(text, to_specials(line.at(2))), expected) << json_dump(line);
    ASSERT_EQ(tokenizer.decode(expected), text);
    ++count;
  }
  EXPECT_GE(count, 10'000U);
}

TEST(TokenizerGolden, CutsLongInputsAsTheFamilyDoes) {
  const Tokenizer tokenizer = golden_tokenizer();
  size_t count = 0;
  for (const json::array& line : golden_lines("long_cases.jsonl")) {
    std::string text;
    for (const json::value& part : line.at(0).as_array()) {
      for (int64_t i = 0; i < part.at(1).as_int64(); ++i) text += part.at(0).as_string();
    }
    Ids expected;
    for (const json::value& piece : line.at(1).as_array()) {
      const Ids ids = to_ids(piece.at(0));
      for (int64_t i = 0; i < piece.at(1).as_int64(); ++i) expected.insert(expected.end(), ids.begin(), ids.end());
    }
    EXPECT_TRUE(tokenizer.encode(text, to_specials(line.at(2))) == expected) << json_dump(line.at(0));
    EXPECT_TRUE(tokenizer.decode(expected) == text) << json_dump(line.at(0));
    ++count;
  }
  EXPECT_GE(count, 15U);
}

TEST(Tokenizer, MergesTheLowestRankFirstAndTheLeftmostOfEquals) {
  const Tokenizer tokenizer = small_tokenizer({"bc", "ab", "aa", "abcd"});
  EXPECT_THAT(tokenizer.encode("abc", Specials::as_text), ElementsAre('a', 256));
  EXPECT_THAT(tokenizer.encode("aaa", Specials::as_text), ElementsAre(258, 'a'));
  // A known piece is taken whole even though no merges lead to it.
  EXPECT_THAT(tokenizer.encode("abcd", Specials::as_text), ElementsAre(259));
  EXPECT_THAT(tokenizer.encode("abcde", Specials::as_text), ElementsAre('a', 256, 'd', 'e'));
  EXPECT_TRUE(tokenizer.encode("", Specials::as_text).empty());
}

TEST(Tokenizer, ShortAndLongPiecesMergeAlike) {
  // The words "abab..." around the length at which the merge loop changes, against a merge by definition.
  const std::vector<std::string> merges = {"ab", "ba", "abab", "bab", "aa", "ababab", "abababab", "bb"};
  const Result<BytePairTable> table = BytePairTable::parse(model_text(merges), "test");
  ASSERT_TRUE(table);
  uint32_t state = 1;
  for (size_t length = 1; length < 200; ++length) {
    std::string piece;
    for (size_t i = 0; i < length; ++i) piece += (state = state * 1664525 + 1013904223) >> 30 ? 'a' : 'b';
    std::vector<std::string> parts;
    for (const char c : piece) parts.emplace_back(1, c);
    while (true) {
      int32_t lowest = -1;
      size_t where = 0;
      for (size_t i = 0; i + 1 < parts.size(); ++i) {
        const int32_t rank = table->find(parts[i] + parts[i + 1]);
        if (rank >= 0 && (lowest < 0 || rank < lowest)) {
          lowest = rank;
          where = i;
        }
      }
      if (lowest < 0) break;
      parts[where] += parts[where + 1];
      parts.erase(parts.begin() + static_cast<ptrdiff_t>(where) + 1);
    }
    Ids expected;
    if (const int32_t whole = table->find(piece); whole >= 0) {
      expected = {whole};
    } else {
      for (const std::string& part : parts) expected.push_back(table->find(part));
    }
    Ids ids;
    table->encode(piece, ids);
    EXPECT_EQ(ids, expected) << piece;
  }
}

TEST(Tokenizer, LongPiecesTakeNearLinearTime) {
  const Tokenizer tokenizer = small_tokenizer({"aa", "aaaa", "aaaaaaaa"});
  const auto begin = std::chrono::steady_clock::now();
  const Ids ids = tokenizer.encode(std::string(2'000'000, 'a'), Specials::as_text);
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
  EXPECT_EQ(ids.size(), 250'000U);
  // A quadratic merge of pieces of 25,000 bytes takes minutes here; this takes well below a second without sanitizers.
  EXPECT_LT(seconds.count(), 20.0);
}

TEST(Tokenizer, HostileTextsOfEveryKindTakeNearLinearTime) {
  const Tokenizer tokenizer = golden_tokenizer();
  const auto begin = std::chrono::steady_clock::now();
  for (const std::string_view unit : {" ", "\n", " \n", "\u0301", "A", "A\u0301", "<", "<|open", "<|reserved_token_225",
                                      "'", "1", "世", "\xFF", "\u3042A"}) {
    std::string text;
    while (text.size() < 1'000'000) text += unit;
    const Ids ids = tokenizer.encode(text, Specials::as_ids);
    const std::string decoded = tokenizer.decode(ids);
    if (unit != "\xFF") EXPECT_TRUE(decoded == text) << unit;
  }
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
  EXPECT_LT(seconds.count(), 60.0);
}

TEST(Tokenizer, SpecialNamesBecomeIdsOnlyWhenAsked) {
  const Tokenizer tokenizer = golden_tokenizer();
  const int32_t base = tokenizer.base_size();
  const std::string text = "a<|open|>[PAD]<|reserved_token_" + std::to_string(base + 7) + "|> b";
  const Ids ids = tokenizer.encode(text, Specials::as_ids);
  ASSERT_GE(ids.size(), 5U);
  EXPECT_EQ(Ids(ids.begin() + 1, ids.begin() + 4), (Ids{base + 3, base + 255, base + 7}));
  for (const int32_t id : tokenizer.encode(text, Specials::as_text)) EXPECT_LT(id, base);
  EXPECT_EQ(tokenizer.decode(tokenizer.encode(text, Specials::as_text)), text);
  EXPECT_EQ(tokenizer.decode(ids), text);
}

TEST(Tokenizer, TheLongestOfTwoNamesAtOnePlaceWins) {
  const Tokenizer tokenizer = small_tokenizer(
      {}, R"({"added_tokens_decoder":{"256":{"content":"<a>"},"257":{"content":"<a><b>"},"258":{"content":"<b>"}}})");
  EXPECT_THAT(tokenizer.encode("<a><b><a><c><b>", Specials::as_ids), ElementsAre(257, 256, '<', 'c', '>', 258));
  EXPECT_THAT(tokenizer.encode("<a><", Specials::as_ids), ElementsAre(256, '<'));
}

TEST(Tokenizer, AllSlotsHaveNamesAndDecode) {
  const Tokenizer tokenizer = golden_tokenizer();
  const int32_t base = tokenizer.base_size();
  EXPECT_EQ(tokenizer.vocab_size(), base + 256);
  for (int32_t id = base; id < tokenizer.vocab_size(); ++id) {
    const std::string name(tokenizer.token_bytes(id));
    EXPECT_FALSE(name.empty());
    EXPECT_EQ(tokenizer.special_id(name), id);
    EXPECT_EQ(tokenizer.decode(Ids{id}), name);
    EXPECT_EQ(tokenizer.encode(name, Specials::as_ids), Ids{id});
    EXPECT_TRUE(tokenizer.is_special(id));
  }
  EXPECT_EQ(tokenizer.token_bytes(base + 8), fmt::format("<|reserved_token_{}|>", base + 8));
  EXPECT_EQ(tokenizer.special_id("the"), std::nullopt);
  EXPECT_EQ(tokenizer.special_id(""), std::nullopt);
  EXPECT_FALSE(tokenizer.is_special(base - 1));
  EXPECT_FALSE(tokenizer.is_special(base + 256));
  EXPECT_DEATH((void)tokenizer.token_bytes(base + 256), "token id");
  EXPECT_DEATH((void)tokenizer.token_bytes(-1), "token id");
}

TEST(Tokenizer, SkipsFlaggedAndUnnamedSlotsOnly) {
  const Tokenizer tokenizer = golden_tokenizer();
  const int32_t base = tokenizer.base_size();
  EXPECT_TRUE(tokenizer.is_skipped(base));       // [BOS]
  EXPECT_FALSE(tokenizer.is_skipped(base + 3));  // <|open|>
  EXPECT_TRUE(tokenizer.is_skipped(base + 7));   // unnamed
  EXPECT_FALSE(tokenizer.is_skipped(base - 1));
  const Ids ids = {base, 64, base + 3, base + 7, 65, base + 2};
  EXPECT_EQ(tokenizer.decode(ids, true), "a<|open|>b");
}

TEST(Tokenizer, RolesComeFromTheConfiguration) {
  const Tokenizer tokenizer = golden_tokenizer();
  EXPECT_EQ(tokenizer.bos_id(), tokenizer.base_size());
  EXPECT_EQ(tokenizer.eos_id(), tokenizer.base_size() + 1);
  EXPECT_EQ(tokenizer.pad_id(), tokenizer.base_size() + 255);
  EXPECT_EQ(tokenizer.unk_id(), tokenizer.base_size() + 254);
  const Tokenizer bare = small_tokenizer({}, R"({"bos_token":null})");
  EXPECT_EQ(bare.bos_id(), std::nullopt);
  EXPECT_EQ(bare.eos_id(), std::nullopt);
}

TEST(Tokenizer, InvalidUtf8IsReplacedBeforeEncoding) {
  const Tokenizer tokenizer = golden_tokenizer();
  EXPECT_EQ(tokenizer.encode("a\xF0\x9F\x8E z\xC0\xAF", Specials::as_text),
            tokenizer.encode("a\uFFFD z\uFFFD\uFFFD", Specials::as_text));
}

TEST(Tokenizer, TokenBytesAreRaw) {
  const Tokenizer tokenizer = golden_tokenizer();
  EXPECT_EQ(tokenizer.token_bytes(220),
            " ");  // GPT-2 byte order: the first 188 printable bytes, then the others ascending
  EXPECT_EQ(tokenizer.token_bytes(236), "\x8E");
  EXPECT_EQ(tokenizer.decode(Ids{236}), "\uFFFD");
  // A leading space is a byte of the token like any other.
  const Ids ids = tokenizer.encode(" the", Specials::as_text);
  ASSERT_EQ(ids.size(), 1U);
  EXPECT_EQ(tokenizer.token_bytes(ids[0]), " the");
}

TEST(Tokenizer, MoveKeepsViews) {
  Tokenizer tokenizer = small_tokenizer({"ab"});
  const std::string_view bytes = tokenizer.token_bytes(256);
  const Tokenizer moved = std::move(tokenizer);
  EXPECT_EQ(bytes, "ab");
  EXPECT_EQ(moved.token_bytes(256).data(), bytes.data());
}

TEST(TokenizerFiles, AFolderWithoutFilesIsAnError) {
  const Result<Tokenizer> tokenizer = Tokenizer::load("/nonexistent-folder");
  ASSERT_FALSE(tokenizer);
  EXPECT_THAT(tokenizer.error().message, HasSubstr("/nonexistent-folder/tiktoken.model"));
}

TEST(TokenizerFiles, BrokenMergeFilesAreErrors) {
  const std::string good = model_text({"ab"});
  EXPECT_EQ(load_error(good), "");
  EXPECT_EQ(load_error(good + "\n\n"), "");
  EXPECT_THAT(load_error(""), HasSubstr("single byte 0x00 has no rank"));
  EXPECT_THAT(load_error(good + "YWJj"), HasSubstr("Line 258 of tiktoken.model has no space"));
  EXPECT_THAT(load_error(good + "YWJj \n"), HasSubstr("does not end with a rank"));
  EXPECT_THAT(load_error(good + "YWJj -1\n"), HasSubstr("does not end with a rank"));
  EXPECT_THAT(load_error(good + "YWJj 257x\n"), HasSubstr("does not end with a rank"));
  EXPECT_THAT(load_error(good + "YWJj 99999999999\n"), HasSubstr("does not end with a rank"));
  EXPECT_THAT(load_error(good + "YWJj  257\n"), HasSubstr("does not end with a rank"));
  EXPECT_THAT(load_error(good + "YWJj 257\r\n"), HasSubstr("does not end with a rank"));
  for (const char* token : {"", "YWJ", "Y=Jj", "YW-j", "YWJj=", "====", "YQ=", "YR==", "YWL\xFF", "Y==="}) {
    EXPECT_THAT(load_error(good + token + " 257\n"), HasSubstr("base64")) << token;
  }
  EXPECT_THAT(load_error(good + "YWJj 258\n"), HasSubstr("Rank 257 is missing"));
  EXPECT_THAT(load_error(good + "YWJj 256\n"), HasSubstr("Rank 256 occurs twice"));
  EXPECT_THAT(load_error(good + "YWI= 257\n"), HasSubstr("rank 257 in tiktoken.model also has a lower rank"));
  EXPECT_THAT(load_error(good + base64(std::string(4097, 'a')) + " 257\n"), HasSubstr("too long"));
  EXPECT_THAT(load_error(good + std::string(100'000, 'A')), HasSubstr("is too long"));
  EXPECT_EQ(load_error(good + base64(std::string(4096, 'a')) + " 257\n"), "");
}

TEST(TokenizerFiles, AMissingByteIsAnError) {
  std::string model;
  for (int byte = 0; byte < 255; ++byte)
    model += fmt::format("{} {}\n", base64(std::string(1, static_cast<char>(byte))), byte);
  EXPECT_THAT(load_error(model + base64("ab") + " 255\n"), HasSubstr("single byte 0xff has no rank"));
}

TEST(TokenizerFiles, BrokenConfigurationsAreErrors) {
  const std::string model = model_text();
  const auto error = [&](std::string_view config) { return load_error(model, config); };
  const auto added = [&](std::string_view tokens) {
    return error(fmt::format("{{\"added_tokens_decoder\":{{{}}}}}", tokens));
  };
  EXPECT_THAT(error("{"), HasSubstr("not valid JSON"));
  EXPECT_THAT(error("[]"), HasSubstr("is not a JSON object"));
  EXPECT_THAT(error(R"({"added_tokens_decoder":[]})"), HasSubstr("not an object"));
  EXPECT_THAT(added(R"("x":{"content":"a"})"), HasSubstr("not an id"));
  EXPECT_THAT(added(R"("":{"content":"a"})"), HasSubstr("not an id"));
  EXPECT_THAT(added(R"("99999999999999999999":{"content":"a"})"), HasSubstr("not an id"));
  EXPECT_THAT(added(R"("255":{"content":"a"})"), HasSubstr("names the id 255"));
  EXPECT_THAT(added(R"("512":{"content":"a"})"), HasSubstr("names the id 512"));
  EXPECT_THAT(added(R"("-9223372036854775808":{"content":"a"})"), HasSubstr("names the id -9223372036854775808"));
  EXPECT_THAT(added(R"("256":"a")"), HasSubstr("no string as content"));
  EXPECT_THAT(added(R"("256":{"content":1})"), HasSubstr("no string as content"));
  EXPECT_THAT(added(R"("256":{"content":""})"), HasSubstr("with 0 bytes"));
  EXPECT_THAT(added(fmt::format("\"256\":{{\"content\":\"{}\"}}", std::string(257, 'a'))), HasSubstr("with 257 bytes"));
  EXPECT_THAT(added(R"("256":{"content":"a","special":1})"), HasSubstr("no boolean as special"));
  EXPECT_THAT(added(R"("256":{"content":"a"},"300":{"content":"a"})"), HasSubstr("the name \"a\" to two ids"));
  EXPECT_THAT(added(R"("256":{"content":"a"},"0256":{"content":"b"})"), HasSubstr("the id 256 twice"));
  EXPECT_THAT(added(R"("256":{"content":"<|reserved_token_257|>"})"), HasSubstr("to two ids"));
  EXPECT_THAT(error(R"({"eos_token":"[EOS]"})"), HasSubstr("not the name of a special token"));
  EXPECT_THAT(error(R"({"eos_token":7})"), HasSubstr("neither a string"));
  EXPECT_THAT(error(R"({"eos_token":{"content":7}})"), HasSubstr("neither a string"));
}

}  // namespace
}  // namespace perigee
