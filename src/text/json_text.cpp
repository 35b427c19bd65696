// The parse events of Boost.JSON turned into text; see json_text.h.
//
// One parser per call, nothing is shared. The text of a container is put together when it closes, so its members are
// in order and a repeated key has been resolved. Numbers are taken from the literal, not from the parser's own
// conversion, which is not exact.
#include "text/json_text.h"

#include <boost/json/basic_parser_impl.hpp>
#include <charconv>
#include <cstdint>
#include <unordered_map>
#include <utility>

namespace perigee {
namespace {

constexpr size_t kMaxDepth = 128;

/// Python's text of a JSON number: integers verbatim (but for -0), anything with a point or an exponent as a float.
std::string python_number(const std::string& literal, double rough) {
  if (literal.find_first_of(".eE") == std::string::npos) return literal == "-0" ? "0" : literal;
  double exact = rough;  // kept when out of range: infinity or zero
  std::from_chars(literal.data(), literal.data() + literal.size(), exact);
  return json_number(exact);
}

/// An array or object being read. A repeated key keeps its first place and takes its last value, as in a Python dict.
struct Container {
  std::vector<JsonMember> members;
  std::unordered_map<std::string, size_t> places;
  std::string key;

  void add(JsonItem item, bool is_object) {
    if (!is_object) {
      members.push_back({{}, std::move(item)});
      return;
    }
    const auto [place, is_new] = places.try_emplace(key, members.size());
    if (is_new) {
      members.push_back({std::move(key), std::move(item)});
    } else {
      members[place->second].value = std::move(item);
    }
    key.clear();
  }
};

std::string dump(const Container& container, bool is_object) {
  std::string out(1, is_object ? '{' : '[');
  for (const auto& member : container.members) {
    if (out.size() > 1) out += ", ";
    if (is_object) {
      json_append_string(out, member.key);
      out += ": ";
    }
    out += json_literal(member.value);
  }
  out += is_object ? '}' : ']';
  return out;
}

/// Receives the parser's events. Names and signatures are Boost.JSON's.
struct TextBuilder {
  static constexpr size_t max_object_size = SIZE_MAX;
  static constexpr size_t max_array_size = SIZE_MAX;
  static constexpr size_t max_key_size = SIZE_MAX;
  static constexpr size_t max_string_size = SIZE_MAX;

  JsonText result;
  std::vector<std::pair<Container, bool>> open;  // innermost last; bool: is an object
  std::string characters;                        // of the string, key or number being read

  bool add(JsonType type, std::string text) {
    JsonItem item{type, std::move(text)};
    if (open.empty()) {
      result.value = std::move(item);
    } else {
      open.back().first.add(std::move(item), open.back().second);
    }
    return true;
  }
  bool append(json::string_view s) {
    characters.append(s.data(), s.size());
    return true;
  }
  std::string take(json::string_view s) {
    append(s);
    return std::exchange(characters, {});
  }
  bool begin(bool is_object) {
    open.emplace_back(Container{}, is_object);
    return true;
  }
  bool end() {
    auto [container, is_object] = std::move(open.back());
    open.pop_back();
    std::string text = dump(container, is_object);
    if (open.empty() && is_object) result.members = std::move(container.members);
    return add(is_object ? JsonType::object : JsonType::array, std::move(text));
  }
  bool number(json::string_view s, double rough) { return add(JsonType::number, python_number(take(s), rough)); }

  bool on_document_begin(json::error_code&) { return true; }
  bool on_document_end(json::error_code&) { return true; }
  bool on_object_begin(json::error_code&) { return begin(true); }
  bool on_object_end(size_t, json::error_code&) { return end(); }
  bool on_array_begin(json::error_code&) { return begin(false); }
  bool on_array_end(size_t, json::error_code&) { return end(); }
  bool on_key_part(json::string_view s, size_t, json::error_code&) { return append(s); }
  bool on_key(json::string_view s, size_t, json::error_code&) {
    open.back().first.key = take(s);
    return true;
  }
  bool on_string_part(json::string_view s, size_t, json::error_code&) { return append(s); }
  bool on_string(json::string_view s, size_t, json::error_code&) { return add(JsonType::string, take(s)); }
  bool on_number_part(json::string_view s, json::error_code&) { return append(s); }
  bool on_int64(int64_t, json::string_view s, json::error_code&) { return number(s, 0); }
  bool on_uint64(uint64_t, json::string_view s, json::error_code&) { return number(s, 0); }
  bool on_double(double rough, json::string_view s, json::error_code&) { return number(s, rough); }
  bool on_bool(bool value, json::error_code&) { return add(JsonType::boolean, value ? "true" : "false"); }
  bool on_null(json::error_code&) { return add(JsonType::null, "null"); }
  bool on_comment_part(json::string_view, json::error_code&) { return true; }
  bool on_comment(json::string_view, json::error_code&) { return true; }
};

JsonItem item_of(const json::value& value) {
  switch (value.kind()) {
    case json::kind::null:
      return {JsonType::null, "null"};
    case json::kind::bool_:
      return {JsonType::boolean, value.get_bool() ? "true" : "false"};
    case json::kind::string:
      return {JsonType::string, std::string(value.get_string())};
    case json::kind::array:
      return {JsonType::array, json_dump(value, JsonStyle::python)};
    case json::kind::object:
      return {JsonType::object, json_dump(value, JsonStyle::python)};
    default:
      return {JsonType::number, json_dump(value, JsonStyle::python)};
  }
}

}  // namespace

std::string_view json_type_name(JsonType type) {
  switch (type) {
    case JsonType::null:
      return "null";
    case JsonType::boolean:
      return "boolean";
    case JsonType::number:
      return "number";
    case JsonType::string:
      return "string";
    case JsonType::array:
      return "array";
    case JsonType::object:
      return "object";
  }
  return "null";
}

Result<JsonText> read_json_text(std::string_view text) {
  json::parse_options options;
  options.max_depth = kMaxDepth;
  json::basic_parser<TextBuilder> parser(options);
  json::error_code error;
  const size_t consumed = parser.write_some(false, text.data(), text.size(), error);
  if (error) return Error{fmt::format("invalid JSON at byte {}: {}", consumed, error.message())};
  if (consumed < text.size()) return Error{fmt::format("invalid JSON at byte {}: text after the document", consumed)};
  return std::move(parser.handler().result);
}

std::vector<JsonMember> json_members(const json::object& object) {
  std::vector<JsonMember> members;
  for (const auto& [key, value] : object) members.push_back({std::string(key), item_of(value)});
  return members;
}

std::string json_literal(const JsonItem& item) {
  if (item.type != JsonType::string) return item.text;
  std::string out;
  json_append_string(out, item.text);
  return out;
}

}  // namespace perigee
