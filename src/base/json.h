// JSON in and out: Boost.JSON for parsing and the value type, our own writer for the bytes that matter.
//
// Prompts carry JSON whose exact bytes decide the tokens, so the writer follows Python's json.dumps(ensure_ascii=False)
// to the letter: separators, float repr, escapes. All functions are pure and thread-safe.
#pragma once

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/value.hpp>
#include <string>
#include <string_view>

#include "base/result.h"

namespace perigee {

namespace json = boost::json;

/// How json_dump separates items.
enum class JsonStyle {
  compact,  ///< {"a":1,"b":[2,3]}: separators "," and ":"
  python,   ///< {"a": 1, "b": [2, 3]}: json.dumps' default separators ", " and ": "
};

/// Parses one JSON document (RFC 8259, UTF-8 checked, nothing after it). Objects keep their key order; of duplicate
/// keys the last wins. Nesting beyond `max_depth` is an error. The message names the byte position.
Result<json::value> parse_json(std::string_view text, int max_depth = 128);

/// Writes `value` as Python would: non-ASCII raw, `/` and U+007F raw, other control characters as \u00xx, doubles in
/// repr form (1.0, 1e+16, 1e-05), integers verbatim. NaN and infinities become NaN, Infinity, -Infinity.
std::string json_dump(const json::value& value, JsonStyle style = JsonStyle::compact);

/// Appends `text` as a JSON string literal with quotes, escaped as in json_dump.
void json_append_string(std::string& out, std::string_view text);

/// Python's repr of a finite double: the shortest digits that read back equal.
std::string json_number(double value);

/// A copy with every object's keys sorted by code point, recursively; array order is kept.
json::value json_sorted(const json::value& value);

}  // namespace perigee
