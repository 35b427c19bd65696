// The rendering of a whole conversation and its tokenisation; see chat_encoder.h.
//
// The order of a prompt: tools, thinking effort, the messages, tool choice, response format, the opening of the
// answer.
#include "text/chat_encoder.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <unordered_set>

#include "text/chat_order.h"
#include "text/chat_prompts.h"
#include "text/json_text.h"
#include "text/prompt_writer.h"
#include "text/xtml.h"

namespace perigee {
namespace {

/// The family's processor takes this string for an image slot wherever it stands, so servers write it with spaces
/// inside the bars; doing the same keeps our prompts equal to theirs. Here it is only text.
std::string body_text(std::string_view text) {
  return xtml::replace_all(text, "<|kimi_image_placeholder|>", "<| kimi_image_placeholder |>");
}

bool is_system(const ChatMessage& message) {
  return message.role == "system" || message.role == "developer";
}

/// One rendering; lives for one call of render().
class Renderer {
 public:
  Renderer(const ChatInput& input, const std::vector<std::string>& efforts) : input_(input), efforts_(efforts) {}

  Result<std::vector<ChatSegment>> run() {
    if (input_.messages.empty()) return Error{"Messages cannot be empty."};
    if (auto done = check_tools(); !done) return done.error();
    if (auto done = preamble(); !done) return done.error();
    const auto ordered = order_messages(input_.messages);
    if (!ordered) return ordered.error();
    for (const auto& place : *ordered) {
      if (input_.continue_final_message && place.index + 1 == static_cast<int>(input_.messages.size())) continue;
      if (auto done = message(place); !done) return done.error();
    }
    postamble();
    if (auto done = answer_opening(); !done) return done.error();
    return writer_.take();
  }

 private:
  Result<void> check_tools();
  Result<void> preamble();
  void postamble();
  Result<void> answer_opening();
  Result<void> message(const OrderedMessage& place);
  Result<void> assistant(int index);
  Result<void> call(const ToolCall& call, size_t position, const std::string& where);
  void argument(const JsonMember& member);
  Result<void> content(int index);

  const ChatInput& input_;
  const std::vector<std::string>& efforts_;
  PromptWriter writer_;
  json::array tools_;                       // declared at the top
  std::vector<json::array> dynamic_tools_;  // by message; empty where none
  bool any_tools_ = false;
};

/// Declarations, names and the tool choice; fills tools_ and dynamic_tools_.
Result<void> Renderer::check_tools() {
  auto declared = chat_prompts::declared_tools(input_.tools, "tools");
  if (!declared) return declared.error();
  tools_ = std::move(*declared);
  bool dynamic = false;
  for (size_t i = 0; i < input_.messages.size(); ++i) {
    dynamic_tools_.emplace_back();
    if (!is_system(input_.messages[i])) continue;
    auto added = chat_prompts::declared_tools(input_.messages[i].tools, fmt::format("messages[{}].tools", i));
    if (!added) return added.error();
    dynamic = dynamic || !added->empty();
    dynamic_tools_.back() = std::move(*added);
  }
  any_tools_ = dynamic || !tools_.empty();

  std::unordered_set<std::string> names;
  std::vector<const json::array*> lists{&tools_};
  for (const auto& list : dynamic_tools_) lists.push_back(&list);
  for (const auto* list : lists) {
    for (const auto& tool : *list) {
      std::string name(tool.at("function").at("name").as_string());
      const auto [place, is_new] = names.insert(std::move(name));
      if (!is_new && dynamic) return Error{fmt::format("The tool name \"{}\" is declared more than once.", *place)};
    }
  }
  const bool needs_tools = input_.tool_choice == ToolChoice::required || input_.tool_choice == ToolChoice::named;
  if (needs_tools && !any_tools_) return Error{"tool_choice asks for a tool call, but the request declares no tools."};
  if (input_.tool_choice == ToolChoice::named && !names.contains(input_.tool_name)) {
    return Error{fmt::format("tool_choice names the tool \"{}\", which is not among the tools.", input_.tool_name)};
  }
  return {};
}

Result<void> Renderer::preamble() {
  if (!tools_.empty()) writer_.system_message("tool-declare", chat_prompts::tool_declare(tools_));
  if (!input_.thinking || !input_.effort) return {};
  if (std::find(efforts_.begin(), efforts_.end(), *input_.effort) == efforts_.end()) {
    return Error{fmt::format("The thinking effort \"{}\" is not supported; it must be one of: {}.", *input_.effort,
                             fmt::join(efforts_, ", "))};
  }
  writer_.system_message("thinking-effort", chat_prompts::thinking_effort(*input_.effort));
  return {};
}

void Renderer::postamble() {
  if (input_.tool_choice == ToolChoice::required) {
    writer_.system_message("tool-choice", std::string(chat_prompts::tool_choice_required()));
  } else if (input_.tool_choice == ToolChoice::none && any_tools_) {
    writer_.system_message("tool-choice", std::string(chat_prompts::tool_choice_none()));
  }
  const auto& format = input_.response_format;
  if (format.kind == ResponseFormat::Kind::json_object) {
    writer_.system_message("response-format", std::string(chat_prompts::json_object_format()));
  } else if (format.kind == ResponseFormat::Kind::json_schema) {
    writer_.system_message("response-format", chat_prompts::json_schema_format(format.schema));
  }
}

/// The stub the model continues. A message to be continued goes behind it: its content into the channel that is open
/// or, when it has both reasoning and content, the reasoning into think and the content into response.
Result<void> Renderer::answer_opening() {
  writer_.open("message", {{"role", "assistant"}});
  writer_.open(input_.thinking ? "think" : "response");
  if (!input_.continue_final_message) return {};
  const auto& last = input_.messages.back();
  const auto index = static_cast<int>(input_.messages.size()) - 1;
  if (last.role != "assistant") {
    return Error{"continue_final_message is set, but the last message is not an assistant message."};
  }
  if (!last.tool_calls.empty()) return Error{"A final message with tool calls cannot be continued."};
  for (const auto& part : last.content) {
    if (part.image) return Error{"A final message with images cannot be continued."};
  }
  if (input_.thinking && !xtml::is_blank(last.reasoning)) {
    writer_.text(body_text(last.reasoning));
    if (!starts_in_think(input_)) {
      writer_.close("think");
      writer_.open("response");
    }
  }
  return content(index);
}

Result<void> Renderer::message(const OrderedMessage& place) {
  const auto& message = input_.messages[static_cast<size_t>(place.index)];
  if (is_system(message) || message.role == "user") {
    const auto& added = dynamic_tools_[static_cast<size_t>(place.index)];
    if (!added.empty()) {
      writer_.system_message("tool-declare", chat_prompts::dynamic_tool_declare(added));
      return {};
    }
    writer_.open("message", {{"role", is_system(message) ? "system" : "user"},
                             {message.name.empty() ? "" : "name", message.name}});
  } else if (message.role == "assistant") {
    return assistant(place.index);
  } else if (message.role == "tool") {
    writer_.open("message", {{"role", "tool"}, {"tool", place.tool}, {"index", std::to_string(place.tool_index)}});
  } else {
    return Error{
        fmt::format("messages[{}].role is \"{}\"; it must be one of: system, developer, user, assistant, tool.",
                    place.index, message.role)};
  }
  if (auto done = content(place.index); !done) return done.error();
  writer_.end_message();
  return {};
}

/// Both channels are always written, even when empty; without thinking no think channel appears in the whole prompt.
Result<void> Renderer::assistant(int index) {
  const auto& message = input_.messages[static_cast<size_t>(index)];
  writer_.open("message", {{"role", "assistant"}, {message.name.empty() ? "" : "name", message.name}});
  if (input_.thinking) {
    writer_.open("think");
    if (!xtml::is_blank(message.reasoning)) writer_.text(body_text(message.reasoning));
    writer_.close("think");
  }
  writer_.open("response");
  if (auto done = content(index); !done) return done.error();
  writer_.close("response");
  if (!message.tool_calls.empty()) {
    writer_.open("tools");
    for (size_t i = 0; i < message.tool_calls.size(); ++i) {
      if (auto done = call(message.tool_calls[i], i, fmt::format("messages[{}].tool_calls[{}]", index, i)); !done) {
        return done.error();
      }
    }
    writer_.close("tools");
  }
  writer_.end_message();
  return {};
}

Result<void> Renderer::call(const ToolCall& call, size_t position, const std::string& where) {
  if (call.name.empty()) return Error{fmt::format("{}.function.name must not be empty.", where)};
  writer_.open("call", {{"tool", call.name}, {"index", std::to_string(position + 1)}});
  if (const auto* object = call.arguments.if_object()) {
    for (const auto& member : json_members(*object)) argument(member);
  } else if (const auto* text = call.arguments.if_string()) {
    const std::string_view raw(text->data(), text->size());
    if (!xtml::is_blank(raw)) {
      const auto document = read_json_text(raw);
      if (!document) {
        writer_.open("json", {{"type", "object"}});
        writer_.text(body_text(raw));
        writer_.close("json");
      } else if (document->value.type != JsonType::object) {
        return Error{
            fmt::format("{}.function.arguments must be the JSON text of an object, not of another value.", where)};
      } else {
        for (const auto& member : document->members) argument(member);
      }
    }
  } else if (!call.arguments.is_null()) {
    return Error{fmt::format("{}.function.arguments must be an object or a string of JSON text.", where)};
  }
  writer_.close("call");
  return {};
}

void Renderer::argument(const JsonMember& member) {
  writer_.open("argument", {{"key", member.key}, {"type", json_type_name(member.value.type)}});
  writer_.text(body_text(member.value.text));
  writer_.close("argument");
}

Result<void> Renderer::content(int index) {
  const auto& parts = input_.messages[static_cast<size_t>(index)].content;
  for (size_t i = 0; i < parts.size(); ++i) {
    if (!parts[i].image) {
      writer_.text(body_text(parts[i].text));
      continue;
    }
    const auto& image = *parts[i].image;
    if (image.width <= 0 || image.height <= 0 || image.tokens <= 0) {
      return Error{fmt::format("messages[{}].content[{}] is an image without pixels.", index, i)};
    }
    writer_.image({index, static_cast<int>(i), image});
  }
  return {};
}

/// Are there tools at all, at the top or in a message?
bool has_tools(const ChatInput& input) {
  return !input.tools.empty() || std::any_of(input.messages.begin(), input.messages.end(), [](const auto& message) {
    return is_system(message) && !message.tools.empty();
  });
}

}  // namespace

json::value schema_of(const json::value& json_schema) {
  if (const auto* object = json_schema.if_object()) {
    for (const auto* key : {"schema", "json_schema"}) {
      if (const auto* schema = object->if_contains(key); schema != nullptr && !schema->is_null()) return *schema;
    }
  }
  return json_schema;
}

bool starts_in_think(const ChatInput& input) {
  if (!input.thinking || !input.continue_final_message || input.messages.empty()) return input.thinking;
  const auto& last = input.messages.back();
  const bool has_content =
      std::any_of(last.content.begin(), last.content.end(), [](const auto& part) { return !part.text.empty(); });
  return xtml::is_blank(last.reasoning) || !has_content;
}

std::string prompt_text(const std::vector<ChatSegment>& segments) {
  std::string text;
  for (const auto& segment : segments) text += segment.text;
  return text;
}

Result<ChatEncoder> ChatEncoder::create(const Tokenizer& tokenizer, ChatEncoderOptions options) {
  if (const auto markers = xtml::find_markers(tokenizer); !markers) return markers.error();
  return ChatEncoder(tokenizer, std::move(options));
}

Result<std::vector<ChatSegment>> ChatEncoder::render(const ChatInput& input) const {
  return Renderer(input, options_.efforts).run();
}

Result<EncodedChat> ChatEncoder::encode(const ChatInput& input) const {
  const auto segments = render(input);
  if (!segments) return segments.error();
  EncodedChat chat;
  for (const auto& segment : *segments) {
    if (auto done = append(segment, chat); !done) return done.error();
  }
  chat.starts_in_think = perigee::starts_in_think(input);
  for (const auto& message : input.messages) {
    if (message.role == "assistant") chat.earlier_tool_calls += static_cast<int>(message.tool_calls.size());
  }
  chat.tools_callable = input.tool_choice != ToolChoice::none && has_tools(input);
  return chat;
}

Result<void> ChatEncoder::append(const ChatSegment& segment, EncodedChat& chat) const {
  if (!segment.control) {
    const auto ids = tokenizer_->encode(segment.text, Specials::as_text);
    chat.ids.insert(chat.ids.end(), ids.begin(), ids.end());
    return {};
  }
  if (!segment.image) {
    chat.ids.push_back(*tokenizer_->special_id(segment.text));
    if (segment.text == xtml::kEndOfMessage) chat.message_ends.push_back(static_cast<int64_t>(chat.ids.size()));
    return {};
  }
  const auto pad = tokenizer_->special_id(xtml::kMediaPad);
  for (const auto marker : {xtml::kMediaBegin, xtml::kMediaContent, xtml::kMediaPad, xtml::kMediaEnd}) {
    if (!tokenizer_->special_id(marker)) {
      return Error{fmt::format("This model cannot see images: its tokenizer has no special token {}.", marker)};
    }
  }
  for (const auto id : tokenizer_->encode(segment.text, Specials::as_ids)) {
    if (id != *pad) {
      chat.ids.push_back(id);
      continue;
    }
    chat.images.push_back({static_cast<int64_t>(chat.ids.size()), *segment.image});
    chat.ids.insert(chat.ids.end(), static_cast<size_t>(segment.image->image.tokens), *pad);
  }
  return {};
}

}  // namespace perigee
