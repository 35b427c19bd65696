// Fuzzes the chat encoder and the chat parser. The first byte chooses: 'j' a conversation as JSON, 's' an answer as
// text with spelled markers, anything else an answer as token ids.
//
// Beyond not crashing: no text of a user becomes a control id, nothing is lost when parsing is off, tool-call pieces
// are in order, and the joined output does not depend on how the input is cut.
#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "../tests/text/support/byte_tokenizer.h"
#include "base/check.h"
#include "base/json.h"
#include "text/chat_encoder.h"
#include "text/chat_parser.h"

namespace perigee {
namespace {

const Tokenizer& tokenizer() {
  static const Tokenizer instance = testing::byte_tokenizer(true);
  return instance;
}

std::string string_at(const json::object& object, std::string_view key) {
  const auto* value = object.if_contains(key);
  const auto* text = value == nullptr ? nullptr : value->if_string();
  return text == nullptr ? std::string() : std::string(*text);
}

json::array array_at(const json::object& object, std::string_view key) {
  const auto* value = object.if_contains(key);
  const auto* array = value == nullptr ? nullptr : value->if_array();
  return array == nullptr ? json::array() : *array;
}

ContentPart part_of(const json::value& value) {
  if (const auto* text = value.if_string()) return {std::string(*text), std::nullopt};
  const int tokens = value.is_int64() ? static_cast<int>(value.get_int64() % 100) : 1;
  return {"", ImagePart{tokens, 7, tokens}};
}

ChatMessage message_of(const json::object& object) {
  ChatMessage message;
  message.role = string_at(object, "role");
  message.name = string_at(object, "name");
  message.reasoning = string_at(object, "reasoning_content");
  message.tool_call_id = string_at(object, "tool_call_id");
  message.tools = array_at(object, "tools");
  for (const auto& part : array_at(object, "content")) message.content.push_back(part_of(part));
  for (const auto& value : array_at(object, "tool_calls")) {
    const auto* call = value.if_object();
    if (call == nullptr) continue;
    const auto* arguments = call->if_contains("arguments");
    message.tool_calls.push_back(
        {string_at(*call, "id"), string_at(*call, "name"), arguments == nullptr ? json::value() : *arguments});
  }
  return message;
}

ChatInput input_of(const json::object& object) {
  ChatInput input;
  for (const auto& value : array_at(object, "messages")) {
    if (const auto* message = value.if_object()) input.messages.push_back(message_of(*message));
  }
  input.tools = array_at(object, "tools");
  input.tool_choice = static_cast<ToolChoice>(string_at(object, "tool_choice").size() % 4);
  input.tool_name = string_at(object, "tool_name");
  input.thinking = !object.contains("no_thinking");
  if (object.contains("effort")) input.effort = string_at(object, "effort");
  if (const auto* schema = object.if_contains("schema")) {
    input.response_format = {ResponseFormat::Kind::json_schema, schema_of(*schema)};
  }
  input.continue_final_message = object.contains("continue");
  return input;
}

void check_conversation(std::string_view text) {
  const auto document = parse_json(text);
  if (!document || !document->is_object()) return;
  const ChatInput input = input_of(document->get_object());
  static const auto encoder = ChatEncoder::create(tokenizer());
  const auto segments = encoder->render(input);
  const auto chat = encoder->encode(input);
  PERIGEE_CHECK(segments.ok() == chat.ok(), "render and encode disagree");
  if (!segments) {
    PERIGEE_CHECK(!segments.error().message.empty(), "an error without a sentence");
    return;
  }
  size_t controls = 0;
  for (const auto& segment : *segments) {
    if (segment.control) controls += segment.image ? 3 + static_cast<size_t>(segment.image->image.tokens) : 1;
  }
  const auto specials =
      std::count_if(chat->ids.begin(), chat->ids.end(), [](auto id) { return tokenizer().is_special(id); });
  PERIGEE_CHECK(static_cast<size_t>(specials) == controls, "{} control ids, {} expected", specials, controls);
}

/// Adds up one answer and checks the order of its tool-call pieces.
class Listener {
 public:
  void add(const ChatDelta& delta) {
    collector_.add(delta);
    for (const auto& piece : delta.tool_calls) {
      const bool first = piece.index == index_ + 1;
      PERIGEE_CHECK(first || (piece.index == index_ && !complete_), "piece of call {} behind {}", piece.index, index_);
      PERIGEE_CHECK(first == !piece.name.empty() && first == !piece.id.empty(), "name or id out of place");
      index_ = piece.index;
      complete_ = piece.complete;
    }
  }
  ParsedChat result() const { return collector_.result(); }

 private:
  ChatCollector collector_;
  int index_ = -1;
  bool complete_ = true;
};

ParsedChat parse_text(std::string_view text, size_t step, const ChatParserOptions& options) {
  ChatParser parser(tokenizer(), options);
  Listener listener;
  for (size_t at = 0; at < text.size(); at += step) listener.add(parser.push_text(text.substr(at, step)));
  listener.add(parser.finish());
  return listener.result();
}

ParsedChat parse_ids(const std::vector<int32_t>& ids, const ChatParserOptions& options) {
  ChatParser parser(tokenizer(), options);
  Listener listener;
  for (const int32_t id : ids) listener.add(parser.push(id));
  listener.add(parser.finish());
  return listener.result();
}

void check_equal(const ParsedChat& a, const ParsedChat& b) {
  PERIGEE_CHECK(a.reasoning == b.reasoning, "<{}> or <{}>", a.reasoning, b.reasoning);
  PERIGEE_CHECK(a.content == b.content, "<{}> or <{}>", a.content, b.content);
  PERIGEE_CHECK(a.tool_calls.size() == b.tool_calls.size(), "{} or {}", a.tool_calls.size(), b.tool_calls.size());
  for (size_t i = 0; i < a.tool_calls.size(); ++i) {
    PERIGEE_CHECK(a.tool_calls[i].arguments == b.tool_calls[i].arguments, "call {}", i);
  }
}

ChatParserOptions options_of(uint8_t bits) {
  ChatParserOptions options;
  options.starts_in_think = (bits & 1) != 0;
  options.reasoning = static_cast<ReasoningOutput>((bits >> 1 & 3) % 3);
  options.tools = static_cast<ToolOutput>((bits >> 3 & 3) % 3);
  options.buffer_reasoning = (bits & 32) != 0;
  options.keep_special_tokens = (bits & 64) != 0;
  return options;
}

void check_text(std::string_view text) {
  if (text.empty()) return;
  const ChatParserOptions options = options_of(static_cast<uint8_t>(text[0]));
  text.remove_prefix(1);
  check_equal(parse_text(text, text.size() + 1, options), parse_text(text, 1, options));
  check_equal(parse_text(text, 7, options), parse_text(text, 3, options));
}

/// Two bytes make a token; the high ids are folded onto the special slots, so that markers are common.
void check_tokens(std::string_view bytes) {
  if (bytes.empty()) return;
  const ChatParserOptions options = options_of(static_cast<uint8_t>(bytes[0]));
  std::vector<int32_t> ids;
  for (size_t i = 1; i + 1 < bytes.size(); i += 2) {
    const int word = static_cast<uint8_t>(bytes[i]) << 8 | static_cast<uint8_t>(bytes[i + 1]);
    ids.push_back(word % tokenizer().vocab_size());
  }
  parse_ids(ids, options);
  ChatParserOptions raw;
  raw.reasoning = ReasoningOutput::raw;
  raw.tools = ToolOutput::raw;
  raw.keep_special_tokens = true;
  PERIGEE_CHECK(parse_ids(ids, raw).content == tokenizer().decode(ids), "text was lost");
}

}  // namespace
}  // namespace perigee

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const std::string_view rest(reinterpret_cast<const char*>(data) + 1, size - 1);
  if (data[0] == 'j') {
    perigee::check_conversation(rest);
  } else if (data[0] == 's') {
    perigee::check_text(rest);
  } else {
    perigee::check_tokens(rest);
  }
  return 0;
}
