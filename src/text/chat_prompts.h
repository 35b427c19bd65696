// The fixed texts of the system messages that the chat encoder adds to a conversation, and the JSON inside them.
//
// Called by the chat encoder only. The texts are protocol constants of Kimi K3: the model was trained on them, byte for
// byte. Pure functions.
#pragma once

#include <string>
#include <string_view>

#include "base/json.h"
#include "base/result.h"

namespace perigee::chat_prompts {

/// The members of `tools` that are shown to the model: type and function{name, description, parameters, strict,
/// defer_loading}, as far as the client set them. An entry that is not a named function is an error (`where` names it).
Result<json::array> declared_tools(const json::array& tools, std::string_view where);

/// Compact JSON with all keys sorted: how tools and schemas appear in prompts.
std::string canonical_json(const json::value& value);

std::string tool_declare(const json::array& declared);
/// The same for tools that a message adds in mid-conversation.
std::string dynamic_tool_declare(const json::array& declared);
std::string thinking_effort(std::string_view effort);
std::string_view tool_choice_required();
std::string_view tool_choice_none();
std::string_view json_object_format();
std::string json_schema_format(const json::value& schema);

}  // namespace perigee::chat_prompts
