#include "base/json.h"

#include <algorithm>
#include <boost/json/basic_parser_impl.hpp>
#include <boost/json/src.hpp>
#include <boost/json/value_stack.hpp>
#include <charconv>
#include <cmath>
#include <vector>

namespace perigee {
namespace {

void append_value(std::string& out, const json::value& value, JsonStyle style) {
  const std::string_view comma = style == JsonStyle::python ? ", " : ",";
  const std::string_view colon = style == JsonStyle::python ? ": " : ":";
  switch (value.kind()) {
    case json::kind::null:
      out += "null";
      break;
    case json::kind::bool_:
      out += value.get_bool() ? "true" : "false";
      break;
    case json::kind::int64:
      out += std::to_string(value.get_int64());
      break;
    case json::kind::uint64:
      out += std::to_string(value.get_uint64());
      break;
    case json::kind::double_:
      out += json_number(value.get_double());
      break;
    case json::kind::string:
      json_append_string(out, value.get_string());
      break;
    case json::kind::array: {
      out += '[';
      bool first = true;
      for (const auto& item : value.get_array()) {
        if (!first) out += comma;
        first = false;
        append_value(out, item, style);
      }
      out += ']';
      break;
    }
    case json::kind::object: {
      out += '{';
      bool first = true;
      for (const auto& [key, item] : value.get_object()) {
        if (!first) out += comma;
        first = false;
        json_append_string(out, key);
        out += colon;
        append_value(out, item, style);
      }
      out += '}';
      break;
    }
  }
}

/// The shortest decimal digits of |value| and the power of ten of the first digit.
struct Digits {
  std::string digits;
  int exponent = 0;
};

Digits shortest_digits(double value) {
  char buffer[40];
  const auto end = std::to_chars(buffer, buffer + sizeof buffer, std::abs(value), std::chars_format::scientific).ptr;
  const std::string_view text(buffer, static_cast<size_t>(end - buffer));
  const size_t e = text.find('e');
  Digits result;
  for (const char c : text.substr(0, e)) {
    if (c != '.') result.digits += c;
  }
  const char* from = text.data() + e + 1;
  if (*from == '+') ++from;
  std::from_chars(from, text.data() + text.size(), result.exponent);
  return result;
}

/// Builds values from parse events as json::parser does, but reads doubles exactly: that parser's own conversion is off
/// by one unit in the last place for one 16-digit number in ten, which would change the tokens of a prompt.
struct ValueBuilder {
  static constexpr size_t max_object_size = json::object::max_size();
  static constexpr size_t max_array_size = json::array::max_size();
  static constexpr size_t max_key_size = json::string::max_size();
  static constexpr size_t max_string_size = json::string::max_size();

  json::value_stack stack;
  std::string number_head;

  bool on_document_begin(json::error_code&) {
    stack.reset();
    return true;
  }
  bool on_document_end(json::error_code&) { return true; }
  bool on_object_begin(json::error_code&) { return true; }
  bool on_object_end(size_t n, json::error_code&) { return stack.push_object(n), true; }
  bool on_array_begin(json::error_code&) { return true; }
  bool on_array_end(size_t n, json::error_code&) { return stack.push_array(n), true; }
  bool on_key_part(json::string_view s, size_t, json::error_code&) { return stack.push_chars(s), true; }
  bool on_key(json::string_view s, size_t, json::error_code&) { return stack.push_key(s), true; }
  bool on_string_part(json::string_view s, size_t, json::error_code&) { return stack.push_chars(s), true; }
  bool on_string(json::string_view s, size_t, json::error_code&) { return stack.push_string(s), true; }
  bool on_number_part(json::string_view s, json::error_code&) { return number_head.append(s.data(), s.size()), true; }
  bool on_int64(int64_t value, json::string_view, json::error_code&) {
    number_head.clear();
    return stack.push_int64(value), true;
  }
  bool on_uint64(uint64_t value, json::string_view, json::error_code&) {
    number_head.clear();
    return stack.push_uint64(value), true;
  }
  bool on_double(double value, json::string_view s, json::error_code&) {
    number_head.append(s.data(), s.size());
    double exact = value;  // kept when out of range: infinity or zero
    std::from_chars(number_head.data(), number_head.data() + number_head.size(), exact);
    number_head.clear();
    return stack.push_double(exact), true;
  }
  bool on_bool(bool value, json::error_code&) { return stack.push_bool(value), true; }
  bool on_null(json::error_code&) { return stack.push_null(), true; }
  bool on_comment_part(json::string_view, json::error_code&) { return true; }
  bool on_comment(json::string_view, json::error_code&) { return true; }
};

}  // namespace

Result<json::value> parse_json(std::string_view text, int max_depth) {
  json::parse_options options;
  options.max_depth = static_cast<size_t>(max_depth);
  json::basic_parser<ValueBuilder> parser(options);
  json::error_code error;
  const size_t consumed = parser.write_some(false, text.data(), text.size(), error);
  if (error) return Error{fmt::format("invalid JSON at byte {}: {}", consumed, error.message())};
  if (consumed < text.size()) return Error{fmt::format("invalid JSON at byte {}: text after the document", consumed)};
  return parser.handler().stack.release();
}

std::string json_dump(const json::value& value, JsonStyle style) {
  std::string out;
  append_value(out, value, style);
  return out;
}

void json_append_string(std::string& out, std::string_view text) {
  out += '"';
  for (const char c : text) {
    switch (c) {
      case '"':
        out += "\\\"";
        break;
      case '\\':
        out += "\\\\";
        break;
      case '\n':
        out += "\\n";
        break;
      case '\r':
        out += "\\r";
        break;
      case '\t':
        out += "\\t";
        break;
      case '\f':
        out += "\\f";
        break;
      case '\b':
        out += "\\b";
        break;
      default:
        if (static_cast<unsigned char>(c) < 0x20) {
          out += fmt::format("\\u{:04x}", static_cast<unsigned>(c));
        } else {
          out += c;
        }
    }
  }
  out += '"';
}

std::string json_number(double value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value > 0 ? "Infinity" : "-Infinity";
  const std::string sign = std::signbit(value) ? "-" : "";
  if (value == 0) return sign + "0.0";
  const auto [digits, exponent] = shortest_digits(value);
  const int count = static_cast<int>(digits.size());
  if (exponent < -4 || exponent >= 16) {
    std::string text = sign + digits.substr(0, 1);
    if (count > 1) text += "." + digits.substr(1);
    return text + fmt::format("e{}{:02}", exponent < 0 ? '-' : '+', std::abs(exponent));
  }
  if (exponent < 0) return sign + "0." + std::string(static_cast<size_t>(-exponent - 1), '0') + digits;
  if (count <= exponent + 1) return sign + digits + std::string(static_cast<size_t>(exponent + 1 - count), '0') + ".0";
  const auto point = static_cast<size_t>(exponent + 1);
  return sign + digits.substr(0, point) + "." + digits.substr(point);
}

json::value json_sorted(const json::value& value) {
  if (const auto* array = value.if_array()) {
    json::array sorted;
    for (const auto& item : *array) sorted.push_back(json_sorted(item));
    return sorted;
  }
  const auto* object = value.if_object();
  if (object == nullptr) return value;
  // UTF-8 bytes compare in code point order.
  std::vector<std::string_view> keys;
  for (const auto& member : *object) keys.push_back(member.key());
  std::sort(keys.begin(), keys.end());
  json::object sorted;
  for (const auto key : keys) sorted[key] = json_sorted(object->at(key));
  return sorted;
}

}  // namespace perigee
