#include "base/json.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace perigee {
namespace {

TEST(JsonDump, FollowsPythonToTheByte) {
  const auto value = parse_json(R"({"b":1,"a":[true,null,1.5,"x/é\u007f"],"big":18446744073709551615,"n":-7})");
  ASSERT_TRUE(value);
  EXPECT_EQ(json_dump(*value), "{\"b\":1,\"a\":[true,null,1.5,\"x/é\x7f\"],\"big\":18446744073709551615,\"n\":-7}");
  EXPECT_EQ(json_dump(*value, JsonStyle::python),
            "{\"b\": 1, \"a\": [true, null, 1.5, \"x/é\x7f\"], \"big\": 18446744073709551615, \"n\": -7}");
  EXPECT_EQ(json_dump(json_sorted(*value)),
            "{\"a\":[true,null,1.5,\"x/é\x7f\"],\"b\":1,\"big\":18446744073709551615,\"n\":-7}");
}

TEST(JsonDump, EscapesControlCharacters) {
  std::string out;
  json_append_string(out, std::string_view("\"\\\n\r\t\f\b\x01\x1f\0", 10));
  EXPECT_EQ(out, R"("\"\\\n\r\t\f\b\u0001\u001f\u0000")");
}

TEST(JsonNumber, IsPythonRepr) {
  // Right sides printed by Python 3.11's repr().
  const std::pair<double, const char*> cases[] = {
      {1.0, "1.0"},
      {0.1, "0.1"},
      {-0.0, "-0.0"},
      {0.0, "0.0"},
      {1e15, "1000000000000000.0"},
      {1e16, "1e+16"},
      {123456789012345680.0, "1.2345678901234568e+17"},
      {1e-4, "0.0001"},
      {1e-5, "1e-05"},
      {1.5e-7, "1.5e-07"},
      {1e100, "1e+100"},
      {5e-324, "5e-324"},
      {1.7976931348623157e308, "1.7976931348623157e+308"},
      {3.14, "3.14"},
      {100.0, "100.0"},
      {12345.678, "12345.678"},
      {0.00012345, "0.00012345"},
      {-2.5, "-2.5"},
  };
  for (const auto& [value, text] : cases) EXPECT_EQ(json_number(value), text);
  EXPECT_EQ(json_number(std::nan("")), "NaN");
  EXPECT_EQ(json_number(-std::numeric_limits<double>::infinity()), "-Infinity");
}

TEST(ParseJson, LastDuplicateKeyWinsAndOrderIsKept) {
  const auto value = parse_json(R"({"z":1,"a":2,"z":3})");
  ASSERT_TRUE(value);
  EXPECT_EQ(json_dump(*value), R"({"z":3,"a":2})");
}

TEST(ParseJson, BadInputNamesThePlace) {
  for (const char* text : {"", "{", "[1,]", "{\"a\" 1}", "nul", "\"\x80\"", "1 2", "{} x", "[\"\\x\"]", "01", "+1"}) {
    const auto value = parse_json(text);
    ASSERT_FALSE(value) << text;
    EXPECT_NE(value.error().message.find("invalid JSON at byte"), std::string::npos) << text;
  }
}

TEST(ParseJson, DepthIsBounded) {
  const auto nested = [](int depth) {
    return std::string(static_cast<size_t>(depth), '[') + std::string(static_cast<size_t>(depth), ']');
  };
  EXPECT_TRUE(parse_json(nested(100)));
  EXPECT_FALSE(parse_json(nested(200)));
  EXPECT_TRUE(parse_json(nested(200), 300));
  EXPECT_FALSE(parse_json(nested(1000000)));
}

}  // namespace
}  // namespace perigee
