// The protocol texts; see chat_prompts.h.
//
// A changed byte here changes the prompt of every request: the tests hold the whole texts. Tools pass through a list
// of known members, because unknown ones must not reach the model. The caller owns all results.
#include "text/chat_prompts.h"

#include <fmt/format.h>

namespace perigee::chat_prompts {
namespace {

/// Copies the listed members that are present, in the list's order.
json::object pick(const json::object& from, std::initializer_list<std::string_view> keys) {
  json::object out;
  for (const auto key : keys) {
    if (const auto* value = from.if_contains(key)) out[key] = *value;
  }
  return out;
}

Result<json::object> declared_tool(const json::value& tool, const std::string& where) {
  const auto* object = tool.if_object();
  if (object == nullptr) return Error{fmt::format("{} must be an object.", where)};
  if (const auto* type = object->if_contains("type")) {
    if (!type->is_string() || type->get_string() != "function") {
      return Error{fmt::format("{}.type must be \"function\"; other kinds of tools are not supported.", where)};
    }
  }
  const auto* member = object->if_contains("function");
  const auto* function = member == nullptr ? nullptr : member->if_object();
  if (function == nullptr) return Error{fmt::format("{}.function must be an object.", where)};
  const auto* name = function->if_contains("name");
  if (name == nullptr || !name->is_string() || name->get_string().empty()) {
    return Error{fmt::format("{}.function.name must be a string that is not empty.", where)};
  }
  json::object declared = pick(*object, {"type"});
  declared["function"] = pick(*function, {"name", "description", "parameters", "strict", "defer_loading"});
  return declared;
}

}  // namespace

Result<json::array> declared_tools(const json::array& tools, std::string_view where) {
  json::array declared;
  for (size_t i = 0; i < tools.size(); ++i) {
    auto tool = declared_tool(tools[i], fmt::format("{}[{}]", where, i));
    if (!tool) return tool.error();
    declared.push_back(std::move(*tool));
  }
  return declared;
}

std::string canonical_json(const json::value& value) {
  return json_dump(json_sorted(value), JsonStyle::compact);
}

std::string tool_declare(const json::array& declared) {
  return "# Tools\nHere are the available tools, described in JSONSchema.\n\n```json\n" + canonical_json(declared) +
         "\n```";
}

std::string dynamic_tool_declare(const json::array& declared) {
  return "## New Tools Available\n"
         "The system dynamically extends the toolset via lazy-loading.\n"
         "You have access to all existing and extended tools.\n"
         "Here are the specs for the extended tools.\n\n```json\n" +
         canonical_json(declared) + "\n```";
}

std::string thinking_effort(std::string_view effort) {
  return fmt::format(
      "`thinking_effort` guides on how much to think in your thinking channel (not including the response channel), "
      "supported values include `low`, `medium`, `high`, and `max`.\n"
      "Now the system is invoked with `thinking_effort={}`.",
      effort);
}

std::string_view tool_choice_required() {
  return "The system is invoked with `tool_choice=required`.\nYou MUST call tools in the next message.";
}

std::string_view tool_choice_none() {
  return "The system is invoked with `tool_choice=none`.\nYou MUST NOT call any tools in the next message.";
}

std::string_view json_object_format() {
  return "The system is invoked with `response_format=json_object`.\n"
         "Your response must be raw JSON data without markdown code blocks (```json) or any additional formatting.";
}

std::string json_schema_format(const json::value& schema) {
  return "The system is invoked with `response_format=json_schema`.\n"
         "Your response must be raw JSON data without markdown code blocks (```json) or any additional formatting.\n"
         "The JSON data must match the following schema:\n```json\n" +
         canonical_json(schema) + "\n```";
}

}  // namespace perigee::chat_prompts
