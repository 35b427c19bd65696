// Tests of the character classes and of UTF-8 stepping and repair.
//
// tools/check_tokenizer.py compares the classes of all code points with the tiktoken package; here are the known edges.
#include "text/unicode.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <string_view>

#include "text/utf8.h"

namespace perigee {
namespace {

using namespace char_class;

TEST(Unicode, ClassesOfKnownCharacters) {
  EXPECT_EQ(char_class_of('a'), kLetter | kLower);
  EXPECT_EQ(char_class_of('A'), kLetter | kUpper);
  EXPECT_EQ(char_class_of(0x01C5), kLetter | kUpper);           // Lt
  EXPECT_EQ(char_class_of(0x02B0), kLetter | kUpper | kLower);  // Lm
  EXPECT_EQ(char_class_of(0x3042), kLetter | kUpper | kLower);  // Lo
  EXPECT_EQ(char_class_of(0x0301), kUpper | kLower);            // Mn
  EXPECT_EQ(char_class_of(0x4E00), kLetter | kHan);
  EXPECT_EQ(char_class_of(0x3005), kLetter | kHan);
  EXPECT_EQ(char_class_of(0x3007), kNumber | kHan);
  EXPECT_EQ(char_class_of(0x2E80), kHan);
  EXPECT_EQ(char_class_of(0x16FF0), kHan);                      // a Han mark
  EXPECT_EQ(char_class_of(0x30FC), kLetter | kUpper | kLower);  // Script=Common although used with Han
  EXPECT_EQ(char_class_of(0x00BD), kNumber);
  EXPECT_EQ(char_class_of('\n'), kSpace | kNewline | kPythonSpace);
  EXPECT_EQ(char_class_of(0x0085), kSpace | kPythonSpace);
  EXPECT_EQ(char_class_of(0x001C), kPythonSpace);
  EXPECT_EQ(char_class_of(0x200B), 0);
  EXPECT_EQ(char_class_of(0xE000), 0);
  EXPECT_EQ(char_class_of(0x10FFFF), 0);
  EXPECT_EQ(char_class_of(0x110000), 0);
}

TEST(Unicode, ChangesAscendAndChange) {
  const auto changes = char_class_changes();
  ASSERT_FALSE(changes.empty());
  EXPECT_EQ(changes[0] >> 8, 0U);
  for (size_t i = 1; i < changes.size(); ++i) {
    EXPECT_LT(changes[i - 1] >> 8, changes[i] >> 8);
    EXPECT_NE(changes[i - 1] & 0xFF, changes[i] & 0xFF);
  }
  EXPECT_LT(changes.back() >> 8, kCodePoints);
}

TEST(Unicode, CountsOfWholeClasses) {
  // Unicode: 25 characters are White_Space; Python adds four separators.
  const uint8_t* table = char_class_table();
  const auto count = [&](uint8_t bit) {
    return std::count_if(table, table + kCodePoints, [&](uint8_t c) { return (c & bit) != 0; });
  };
  EXPECT_EQ(count(kSpace), 25);
  EXPECT_EQ(count(kPythonSpace), 29);
  EXPECT_EQ(count(kNewline), 2);
  // 98,408 in Scripts-15.0.0 and 622 of extension I.
  EXPECT_EQ(count(kHan), 98'408 + 622);
}

TEST(Utf8, EveryCodePointSurvivesARoundTrip) {
  for (char32_t code = 0; code < kCodePoints; ++code) {
    std::string bytes;
    append_utf8(bytes, code);
    const bool surrogate = code >= 0xD800 && code < 0xE000;
    const Utf8Step step = utf8_step(bytes, 0);
    ASSERT_EQ(step.code_point, surrogate ? 0xFFFD : code);
    ASSERT_EQ(step.length, bytes.size());
    ASSERT_EQ(step.status, Utf8Status::valid);
    uint32_t length = 0;
    ASSERT_EQ(decode_valid_utf8(bytes.data(), length), step.code_point);
    ASSERT_EQ(length, bytes.size());
  }
}

TEST(Utf8, RepairReplacesMaximalSubparts) {
  // The examples of the Unicode Standard, tables 3-8 to 3-11, and the edges of each lead's second byte.
  const std::string kBad = "\uFFFD";
  EXPECT_EQ(repair_utf8("\xC0\xAF\xE0\x80\xBF\xF0\x81\x82\x41"),
            kBad + kBad + kBad + kBad + kBad + kBad + kBad + kBad + "A");
  EXPECT_EQ(repair_utf8("\xED\xA0\x80\xED\xBF\xBF\xED\xAF\x41"),
            kBad + kBad + kBad + kBad + kBad + kBad + kBad + kBad + "A");
  EXPECT_EQ(repair_utf8("\xF4\x91\x92\x93\xFF\x41\x80\xBF\x42"),
            kBad + kBad + kBad + kBad + kBad + "A" + kBad + kBad + "B");
  EXPECT_EQ(repair_utf8("\xE1\x80\xE2\xF0\x91\x92\xF1\xBF\x41"), kBad + kBad + kBad + kBad + "A");
  EXPECT_EQ(repair_utf8("\xF0\x9F\x8E"), kBad);
  EXPECT_EQ(repair_utf8("a\xE2\x82"), "a" + kBad);
  EXPECT_EQ(repair_utf8("\xF4\x8F\xBF\xBF\xEE\x80\x80\xED\x9F\xBF\xE0\xA0\x80"), "\U0010FFFF\uE000\uD7FF\u0800");
  EXPECT_EQ(repair_utf8(""), "");
  // An invalid byte within and behind a run of eight ASCII bytes.
  EXPECT_EQ(repair_utf8("abcdefgh\xFFijklmnopqrst\x80"), "abcdefgh" + kBad + "ijklmnopqrst" + kBad);
}

TEST(Utf8, ValidityAgreesWithRepairOnAllShortSequences) {
  // All pairs and, from a set of edge bytes, all sequences of four.
  const std::string_view edges =
      "\x41\x7F\x80\x8F\x90\x9F\xA0\xBF\xC0\xC1\xC2\xDF\xE0\xE1\xEC\xED\xEE\xEF\xF0\xF1\xF3\xF4\xF5\xFF";
  size_t valid = 0;
  std::string text(4, 'a');
  for (const char a : edges) {
    for (const char b : edges) {
      for (const char c : edges) {
        for (const char d : edges) {
          text[0] = a, text[1] = b, text[2] = c, text[3] = d;
          const std::string repaired = repair_utf8(text);
          ASSERT_TRUE(is_valid_utf8(repaired));
          ASSERT_EQ(is_valid_utf8(text), repaired == text);
          valid += repaired == text ? 1U : 0U;
        }
      }
    }
  }
  EXPECT_GT(valid, 100U);
}

}  // namespace
}  // namespace perigee
