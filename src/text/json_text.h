// JSON read straight into text, as Python's json.dumps(json.loads(text), ensure_ascii=False) would write it.
//
// Called by the chat encoder (tool calls of a history) and the chat parser (tool calls being generated), where a number
// must keep its digits: unlike a json::value, integers of any size stay as they are. Pure and thread-safe.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"

namespace perigee {

enum class JsonType { null, boolean, number, string, array, object };

/// The name JSON Schema and the XTML `type` attribute have for it.
std::string_view json_type_name(JsonType type);

/// One value: of a string its characters, of anything else its Python dump (separators ", " and ": ").
struct JsonItem {
  JsonType type = JsonType::null;
  std::string text;
};

/// One member of an object.
struct JsonMember {
  std::string key;
  JsonItem value;
};

/// A document; `members` is filled when it is an object, in order of first appearance, the last of equal keys winning.
struct JsonText {
  JsonItem value;
  std::vector<JsonMember> members;
};

/// Reads one RFC 8259 document with nothing after it, nested at most 128 deep. The error names the byte position.
Result<JsonText> read_json_text(std::string_view text);

/// The members of a parsed object, dumped alike.
std::vector<JsonMember> json_members(const json::object& object);

/// The value as JSON text: a string in quotes, the rest as it is.
std::string json_literal(const JsonItem& item);

}  // namespace perigee
