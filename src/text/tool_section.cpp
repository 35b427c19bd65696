// The states of a tools section; see tool_section.h.
//
// Called by the chat parser for every event inside of a section. String values leave as they come, JSON-escaped; all
// else is buffered to the end of its element and normalised there.
#include "text/tool_section.h"

#include <fmt/format.h>

#include <utility>

#include "text/json_text.h"
#include "text/xtml.h"

namespace perigee {
namespace {

/// `text` as the inside of a JSON string.
std::string json_escaped(std::string_view text) {
  std::string quoted;
  json_append_string(quoted, text);
  return quoted.substr(1, quoted.size() - 2);
}

/// A value of a type other than string: normalised JSON, or what the model wrote as a string when it is no JSON.
std::string normalized_value(std::string_view text) {
  const auto document = read_json_text(text);
  return json_literal(document ? document->value : JsonItem{JsonType::string, std::string(text)});
}

/// A raw JSON body: normalised if it is an object, empty arguments if it is blank, else left as it is.
std::string normalized_body(std::string_view text) {
  if (xtml::is_blank(text)) return "{}";
  const auto document = read_json_text(text);
  return document && document->value.type == JsonType::object ? document->value.text : std::string(text);
}

}  // namespace

bool ToolSection::handle(const XtmlEvent& event, std::vector<ToolCallDelta>& out) {
  if (event.kind == XtmlEvent::Kind::end_of_message) return false;
  if (place_ != Place::outside && place_ != Place::in_call) return handle_value(event, out);
  if (event.kind == XtmlEvent::Kind::text) return true;  // prose or white space between elements
  const bool opens = event.kind == XtmlEvent::Kind::open;
  switch (event.tag) {
    case TagName::call:
      end_call(out);
      if (opens) start_call(event, out);
      return true;
    case TagName::argument:
      if (opens && place_ == Place::in_call) start_argument(event, out);
      return true;
    case TagName::json:
      if (opens && place_ == Place::in_call) start_json();
      return true;
    case TagName::tools:
      return opens;
    default:
      return false;
  }
}

bool ToolSection::handle_value(const XtmlEvent& event, std::vector<ToolCallDelta>& out) {
  if (event.kind == XtmlEvent::Kind::close && event.tag == value_tag_) {
    end_value(out);
  } else if (place_ == Place::string_value) {
    emit(json_escaped(event.text), out);
  } else if (place_ != Place::ignored_value) {
    buffer_ += event.text;
  }
  return true;
}

void ToolSection::start_call(const XtmlEvent& tag, std::vector<ToolCallDelta>& out) {
  const auto name = tag_attribute(tag.text, "tool");
  place_ = Place::in_call;
  named_ = name && !name->empty();
  has_arguments_ = has_json_ = repeated_key_ = false;
  keys_.clear();
  if (!named_) return;
  const int index = next_index_++;
  out.push_back({index, fmt::format("{}:{}", *name, earlier_calls_ + index), *name, {}, false, false});
}

void ToolSection::start_argument(const XtmlEvent& tag, std::vector<ToolCallDelta>& out) {
  value_tag_ = TagName::argument;
  const auto key = tag_attribute(tag.text, "key");
  if (!named_ || has_json_ || !key) {
    place_ = Place::ignored_value;
    return;
  }
  if (!keys_.insert(*key).second) repeated_key_ = true;
  std::string head = has_arguments_ ? ", " : "{";
  json_append_string(head, *key);
  head += ": ";
  has_arguments_ = true;
  if (tag_attribute(tag.text, "type").value_or("string") == "string") {
    place_ = Place::string_value;
    head += '"';
  } else {
    place_ = Place::other_value;
    buffer_.clear();
  }
  emit(head, out);
}

void ToolSection::start_json() {
  value_tag_ = TagName::json;
  place_ = named_ && !has_json_ && !has_arguments_ ? Place::json_body : Place::ignored_value;
  buffer_.clear();
}

void ToolSection::end_value(std::vector<ToolCallDelta>& out) {
  if (place_ == Place::string_value) emit("\"", out);
  if (place_ == Place::other_value) emit(normalized_value(buffer_), out);
  if (place_ == Place::json_body) {
    emit(normalized_body(buffer_), out);
    has_json_ = true;
  }
  place_ = Place::in_call;
}

void ToolSection::end_call(std::vector<ToolCallDelta>& out) {
  if (place_ != Place::in_call) return;
  place_ = Place::outside;
  if (!named_) return;
  emit(has_json_ ? "" : has_arguments_ ? "}" : "{}", out);
  out.back().complete = true;
  out.back().repeated_key = repeated_key_;
  ++complete_calls_;
}

void ToolSection::drop_call() {
  place_ = Place::outside;
}

/// Adds to the open call's last delta, or starts the next one.
void ToolSection::emit(std::string_view arguments, std::vector<ToolCallDelta>& out) const {
  const int index = next_index_ - 1;
  if (out.empty() || out.back().index != index) out.push_back({index, {}, {}, {}, false, false});
  out.back().arguments += arguments;
}

}  // namespace perigee
