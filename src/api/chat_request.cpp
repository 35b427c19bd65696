#include "api/chat_request.h"

#include <algorithm>

namespace perigee {
namespace {

/// Content: a string, null, or a list of text parts. Images need the vision tower, which is not there yet.
Result<std::vector<ContentPart>, ApiError> read_content(const json::value* value, const std::string& path) {
  std::vector<ContentPart> parts;
  if (value == nullptr || value->is_null()) return parts;
  if (value->is_string()) {
    parts.push_back({std::string(value->get_string()), {}});
    return parts;
  }
  if (!value->is_array()) return bad_request(path + " must be a string or a list of parts", path);
  for (const auto& item : value->get_array()) {
    const json::object* part = item.if_object();
    const json::value* type = part == nullptr ? nullptr : part->if_contains("type");
    if (type == nullptr || !type->is_string()) return bad_request(path + " must hold objects with a type", path);
    const std::string_view name = type->get_string();
    if (name == "text" || name == "input_text") {
      const json::value* text = part->if_contains("text");
      if (text == nullptr || !text->is_string()) return bad_request(path + ": a text part must have a text", path);
      parts.push_back({std::string(text->get_string()), {}});
    } else if (name == "image_url" || name == "input_image" || name == "image") {
      return bad_request(path + ": images are not supported yet", path);
    } else {
      return bad_request(fmt::format("{}: part type {} is not supported", path, name), path);
    }
  }
  return parts;
}

Result<std::vector<ToolCall>, ApiError> read_tool_calls(const json::array* list, const std::string& path) {
  std::vector<ToolCall> calls;
  if (list == nullptr) return calls;
  for (const auto& item : *list) {
    const json::object* call = item.if_object();
    const json::value* function = call == nullptr ? nullptr : call->if_contains("function");
    const json::value* name =
        function != nullptr && function->is_object() ? function->get_object().if_contains("name") : nullptr;
    if (name == nullptr || !name->is_string()) return bad_request(path + " must hold calls with function.name", path);
    ToolCall one;
    one.name = std::string(name->get_string());
    if (const json::value* id = call->if_contains("id"); id != nullptr && id->is_string())
      one.id = std::string(id->get_string());
    if (const json::value* arguments = function->get_object().if_contains("arguments")) one.arguments = *arguments;
    calls.push_back(std::move(one));
  }
  return calls;
}

void read_tools(Fields& fields, ChatInput& input) {
  if (const json::array* tools = fields.array("tools")) {
    for (const auto& tool : *tools) {
      const json::object* object = tool.if_object();
      const json::value* function = object == nullptr ? nullptr : object->if_contains("function");
      const json::value* name =
          function != nullptr && function->is_object() ? function->get_object().if_contains("name") : nullptr;
      if (name == nullptr || !name->is_string() || name->get_string().empty()) {
        fields.fail("tools", "must hold objects with function.name");
        return;
      }
    }
    input.tools = *tools;
  }
  const json::value* choice = fields.find("tool_choice");
  if (choice == nullptr) return;
  const std::string_view text = choice->is_string() ? std::string_view(choice->get_string()) : "";
  if (text == "none") {
    input.tool_choice = ToolChoice::none;
  } else if (text == "required" || choice->is_object()) {
    fields.fail("tool_choice", "can be auto or none: forcing a call is not supported yet");
  } else if (text != "auto") {
    fields.fail("tool_choice", "must be auto, none, required or an object that names a function");
  }
}

/// reasoning_effort, thinking and chat_template_kwargs; an explicit thinking switch outranks an effort of "none".
void read_thinking(Fields& fields, const std::vector<std::string>& efforts, ChatInput& input) {
  std::optional<std::string> effort = fields.text("reasoning_effort");
  std::optional<bool> thinking;
  std::optional<std::string> chosen_effort;
  if (const json::object* switches = fields.object("thinking")) {
    Fields inner(*switches, "thinking.");
    if (const auto type = inner.text("type")) {
      if (*type != "enabled" && *type != "disabled") inner.fail("type", "must be enabled or disabled");
      thinking = *type == "enabled";
    }
    chosen_effort = inner.text("effort");
    if (inner.error()) fields.fail("thinking", inner.error()->message);
  }
  if (const json::object* kwargs = fields.object("chat_template_kwargs")) {
    Fields inner(*kwargs, "chat_template_kwargs.");
    const auto own = inner.boolean("thinking");
    const auto alias = inner.boolean("enable_thinking");
    if (own && alias && *own != *alias) inner.fail("enable_thinking", "contradicts thinking");
    if (own || alias) thinking = own ? own : alias;
    if (const auto text = inner.text("thinking_effort")) chosen_effort = text;
    if (inner.error()) fields.fail("chat_template_kwargs", inner.error()->message);
  }
  if (effort == "none") {
    if (!thinking) thinking = false;
    effort.reset();
  }
  if (!chosen_effort) chosen_effort = effort;
  input.thinking = thinking.value_or(true);
  if (!chosen_effort) return;
  if (std::find(efforts.begin(), efforts.end(), *chosen_effort) == efforts.end()) {
    fields.fail("reasoning_effort",
                fmt::format("is \"{}\"; this model knows none, {}", *chosen_effort, fmt::join(efforts, ", ")));
  }
  input.effort = chosen_effort;
}

void read_stream_options(Fields& fields, ChatRequest& request) {
  request.stream = fields.boolean("stream").value_or(false);
  const json::object* options = fields.object("stream_options");
  if (options == nullptr) return;
  Fields inner(*options, "stream_options.");
  request.include_usage = inner.boolean("include_usage").value_or(false);
  request.continuous_usage = inner.boolean("continuous_usage_stats").value_or(false);
  if (inner.error()) fields.fail("stream_options", inner.error()->message);
}

}  // namespace

Result<ChatMessage, ApiError> read_message(const json::value& value, size_t index) {
  const std::string path = fmt::format("messages[{}]", index);
  const json::object* object = value.if_object();
  if (object == nullptr) return bad_request(path + " must be an object", path);
  Fields fields(*object, path + ".");
  ChatMessage message;
  message.role = fields.text("role").value_or("");
  constexpr std::string_view kRoles[] = {"system", "developer", "user", "assistant", "tool"};
  if (std::find(std::begin(kRoles), std::end(kRoles), message.role) == std::end(kRoles)) {
    fields.fail("role", "must be system, developer, user, assistant or tool");
  }
  auto content = read_content(object->if_contains("content"), path + ".content");
  if (!content) return content.error();
  message.content = std::move(*content);
  if (message.role != "user")
    message.name = fields.text(message.role == "tool" && object->contains("tool") ? "tool" : "name").value_or("");
  if (message.role == "assistant") {
    message.reasoning = fields.text("reasoning_content").value_or(fields.text("reasoning").value_or(""));
    auto calls = read_tool_calls(fields.array("tool_calls"), path + ".tool_calls");
    if (!calls) return calls.error();
    message.tool_calls = std::move(*calls);
  }
  if (message.role == "tool")
    message.tool_call_id = fields.text("tool_call_id").value_or(fields.text("id").value_or(""));
  if (message.role == "system" || message.role == "developer") {
    if (const json::array* tools = fields.array("tools")) message.tools = *tools;
  }
  if (fields.error()) return *fields.error();
  return message;
}

Result<ChatRequest, ApiError> read_chat_request(const json::object& body, int64_t vocab, const ApiLimits& limits,
                                                const std::vector<std::string>& efforts) {
  Fields fields(body);
  ChatRequest request;
  const json::array* messages = fields.array("messages");
  if (messages == nullptr && !fields.error()) fields.fail("messages", "is missing");
  if (messages != nullptr && messages->empty()) fields.fail("messages", "must not be empty");
  if (messages != nullptr && messages->size() > limits.messages)
    fields.fail("messages", fmt::format("must not hold more than {} messages", limits.messages));
  if (fields.error()) return *fields.error();
  for (size_t i = 0; i < messages->size(); ++i) {
    auto message = read_message((*messages)[i], i);
    if (!message) return message.error();
    request.input.messages.push_back(std::move(*message));
  }
  request.sampling = read_sampling(fields, vocab, limits);
  read_tools(fields, request.input);
  read_thinking(fields, efforts, request.input);
  read_stream_options(fields, request);
  refuse_constraints(fields);
  request.rid = fields.text("rid", limits.id_bytes).value_or("");
  request.logprobs = fields.boolean("logprobs").value_or(false);
  const auto top = fields.integer("top_logprobs", 0, limits.top_logprobs);
  if (top && !request.logprobs && *top > 0) fields.fail("top_logprobs", "needs logprobs to be true");
  if (request.logprobs) request.sampling.params.logprobs = static_cast<int32_t>(top.value_or(0));
  request.separate_reasoning = fields.boolean("separate_reasoning").value_or(true);
  request.stream_reasoning = fields.boolean("stream_reasoning").value_or(true);
  request.input.continue_final_message = fields.boolean("continue_final_message").value_or(false);
  if (fields.error()) return *fields.error();
  return request;
}

}  // namespace perigee
