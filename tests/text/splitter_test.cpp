// Tests of the splitter: each alternative of the pattern by hand, linear time, and the long-input guard with small
// limits.
//
// The broad comparison with the tiktoken package is TokenizerGolden in tokenizer_test.cpp.
#include "text/splitter.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

namespace perigee {
namespace {

using ::testing::ElementsAre;

using Pieces = std::vector<std::string>;

Pieces split(std::string_view text) {
  Pieces pieces;
  for (size_t start = 0; start < text.size();) {
    const size_t end = next_piece(text, start);
    pieces.emplace_back(text.substr(start, end - start));
    start = end;
  }
  return pieces;
}

TEST(Splitter, WordsTakeOneCharacterInFront) {
  EXPECT_THAT(split("Hello world"), ElementsAre("Hello", " world"));
  EXPECT_THAT(split("(a) [b"), ElementsAre("(a", ")", " [", "b"));
  EXPECT_THAT(split("\tx\u00A0y\u2028z"), ElementsAre("\tx", "\u00A0y", "\u2028z"));
  EXPECT_THAT(split("\nx"), ElementsAre("\n", "x"));
  EXPECT_THAT(split("a/b//c"), ElementsAre("a", "/b", "//", "c"));
}

TEST(Splitter, CaseChangesCutWords) {
  EXPECT_THAT(split("camelCaseHTTPServer"), ElementsAre("camel", "Case", "HTTPServer"));
  EXPECT_THAT(split("ABC"), ElementsAre("ABC"));
  EXPECT_THAT(split("aBC"), ElementsAre("a", "BC"));
  EXPECT_THAT(split("\u01C5a"), ElementsAre("\u01C5a"));
}

TEST(Splitter, UpperRunsGiveCharactersBackToTheLastCaseless) {
  EXPECT_THAT(split("\u3042A"), ElementsAre("\u3042", "A"));
  EXPECT_THAT(split("A\u3042BC"), ElementsAre("A\u3042", "BC"));
  EXPECT_THAT(split("A\u3042\u3044b"), ElementsAre("A\u3042\u3044b"));
  EXPECT_THAT(split(" A\u02B0B\u02B0CD"), ElementsAre(" A\u02B0B\u02B0", "CD"));
}

TEST(Splitter, MarksArePrefixesAndLetters) {
  EXPECT_THAT(split("\u0301"), ElementsAre("\u0301"));
  EXPECT_THAT(split("\u0301a"), ElementsAre("\u0301a"));
  EXPECT_THAT(split("\u0301ABC"), ElementsAre("\u0301", "ABC"));
  EXPECT_THAT(split("\u0301's"), ElementsAre("\u0301's"));
  EXPECT_THAT(split("e\u0301t"), ElementsAre("e\u0301t"));
  EXPECT_THAT(split("!\u0301!"), ElementsAre("!\u0301", "!"));
  EXPECT_THAT(split("!!\u0301"), ElementsAre("!!\u0301"));
}

TEST(Splitter, ContractionsStayWithTheWord) {
  EXPECT_THAT(split("don't we'LL I'Ve 'tis"), ElementsAre("don't", " we'LL", " I'Ve", " '", "tis"));
  EXPECT_THAT(split("it's's"), ElementsAre("it's", "'s"));
  EXPECT_THAT(split("HE'D'X"), ElementsAre("HE'D", "'X"));
  EXPECT_THAT(split("a'\u017F\u017F"), ElementsAre("a'\u017F", "\u017F"));
  EXPECT_THAT(split("a'l"), ElementsAre("a", "'l"));
  EXPECT_THAT(split("a'r'v'"), ElementsAre("a", "'r", "'v", "'"));
  EXPECT_THAT(split("a'store"), ElementsAre("a's", "tore"));
  EXPECT_THAT(split("1's"), ElementsAre("1", "'s"));
}

TEST(Splitter, HanRunsStandAlone) {
  EXPECT_THAT(split("abc\u4E16\u754Cdef"), ElementsAre("abc", "\u4E16\u754C", "def"));
  EXPECT_THAT(split(" \u65E5\u672C\u8A9E"), ElementsAre(" ", "\u65E5\u672C\u8A9E"));
  EXPECT_THAT(split("\u65E5\u3005\u3007\u3021\u2E80\u3042"), ElementsAre("\u65E5\u3005\u3007\u3021\u2E80", "\u3042"));
  // U+3007 is a number too: in a run of digits it is taken as one. U+2E80 is a symbol too.
  EXPECT_THAT(split("1\u3007\u4E00"), ElementsAre("1\u3007", "\u4E00"));
  EXPECT_THAT(split("!!\u2E80\u4E00"), ElementsAre("!!\u2E80", "\u4E00"));
  EXPECT_THAT(split("\u4E16's"), ElementsAre("\u4E16", "'s"));
  // Unicode 15.1 added this extension.
  EXPECT_THAT(split("a\U0002EBF0"), ElementsAre("a", "\U0002EBF0"));
}

TEST(Splitter, NumbersComeInThrees) {
  EXPECT_THAT(split("12345678"), ElementsAre("123", "456", "78"));
  EXPECT_THAT(split(" 12\u00BD\u0663"), ElementsAre(" ", "12\u00BD", "\u0663"));
  EXPECT_THAT(split("1a2"), ElementsAre("1", "a", "2"));
}

TEST(Splitter, SymbolsTakeASpaceAndNewlines) {
  EXPECT_THAT(split(" !!\r\n\nx"), ElementsAre(" !!\r\n\n", "x"));
  EXPECT_THAT(split("  !"), ElementsAre(" ", " !"));
  EXPECT_THAT(split("\t!!"), ElementsAre("\t", "!!"));
  EXPECT_THAT(split("\U0001F389\nx"), ElementsAre("\U0001F389\n", "x"));
  EXPECT_THAT(split("}\n  x"), ElementsAre("}\n", " ", " x"));
  EXPECT_THAT(split("\x1C\x1C"), ElementsAre("\x1C\x1C"));
}

TEST(Splitter, WhiteSpaceKeepsItsLastForTheNextPiece) {
  EXPECT_THAT(split("a   b"), ElementsAre("a", "  ", " b"));
  EXPECT_THAT(split("a   "), ElementsAre("a", "   "));
  EXPECT_THAT(split("a \n \n  b"), ElementsAre("a", " \n \n", " ", " b"));
  EXPECT_THAT(split("a \n "), ElementsAre("a", " \n", " "));
  EXPECT_THAT(split("  1"), ElementsAre(" ", " ", "1"));
  EXPECT_THAT(split(" 1"), ElementsAre(" ", "1"));
  EXPECT_THAT(split("\u3000\u4E00"), ElementsAre("\u3000", "\u4E00"));
  EXPECT_THAT(split("\r\r\n"), ElementsAre("\r\r\n"));
}

TEST(LongInput, ShortTextsStayWhole) {
  EXPECT_THAT(long_input_cuts(""), ElementsAre());
  EXPECT_THAT(long_input_cuts("abc"), ElementsAre(3U));
  EXPECT_THAT(long_input_cuts(std::string(25'000, 'a')), ElementsAre(25'000U));
  EXPECT_THAT(long_input_cuts(std::string(25'001, 'a')), ElementsAre(25'000U, 25'001U));
}

TEST(LongInput, RunsAndBlocksAreCut) {
  const LongInputLimits limits{.block = 8, .run = 3};
  EXPECT_THAT(long_input_cuts("aaa bbb", limits), ElementsAre(7U));
  EXPECT_THAT(long_input_cuts("aaaa", limits), ElementsAre(3U, 4U));
  EXPECT_THAT(long_input_cuts("aaaaaaa", limits), ElementsAre(3U, 6U, 7U));
  EXPECT_THAT(long_input_cuts("a    b", limits), ElementsAre(4U, 6U));
  // A block's end starts a new run.
  EXPECT_THAT(long_input_cuts("a a a bbbb", limits), ElementsAre(8U, 10U));
  EXPECT_THAT(long_input_cuts("a a a a a", limits), ElementsAre(8U, 9U));
}

TEST(LongInput, CountsCodePointsAndPythonsSpaces) {
  const LongInputLimits limits{.block = 100, .run = 2};
  EXPECT_THAT(long_input_cuts("\u4E16\u754C\u4E16", limits), ElementsAre(6U, 9U));
  EXPECT_THAT(long_input_cuts("\x1C \x1F", limits), ElementsAre(2U, 3U));
  EXPECT_THAT(long_input_cuts("a\x1C"
                              "a\x1C",
                              limits),
              ElementsAre(4U));
  EXPECT_THAT(long_input_cuts("\u3000\u0085\u00A0", limits), ElementsAre(5U, 7U));
}

}  // namespace
}  // namespace perigee
