// A conversation as plain structs: what the API layer builds from a request and the chat encoder turns into a prompt.
//
// Values only, no behaviour: the API layer owns and fills them, the encoder reads them. Strings are UTF-8. Nothing here
// has been checked; ChatEncoder reports what is wrong with a conversation as one sentence for the client.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/json.h"

namespace perigee {

/// An image of a message. Width and height are those of the decoded picture before any resize; `tokens` is the number
/// of feature rows the vision tower makes of it, that is of `<|media_pad|>` tokens in the prompt.
struct ImagePart {
  int width = 0;
  int height = 0;
  int tokens = 0;
};

/// One part of a message's content: text, or an image (`text` is then ignored). Every part is tokenised on its own.
struct ContentPart {
  std::string text;
  std::optional<ImagePart> image;
};

/// A call made by an earlier assistant message.
struct ToolCall {
  std::string id;         ///< opaque; matched with ChatMessage::tool_call_id
  std::string name;       ///< function name
  json::value arguments;  ///< as the client sent it: an object, a string (normally JSON text), or null for none
};

/// One message. Fields that do not belong to the role are ignored.
struct ChatMessage {
  std::string role;                  ///< system, developer, user, assistant or tool
  std::string name;                  ///< optional; of a tool message: its `tool`, else its `name`
  std::vector<ContentPart> content;  ///< a plain string is one part, null is none
  std::string reasoning;             ///< assistant: `reasoning_content`, else `reasoning`
  std::vector<ToolCall> tool_calls;  ///< assistant
  std::string tool_call_id;          ///< tool: `tool_call_id`, else `id`
  json::array tools;                 ///< system, developer: tools declared in mid-conversation
};

enum class ToolChoice { automatic, none, required, named };

/// What the client asked the answer to be. `schema` is the JSON Schema itself (see schema_of) and is read only for
/// Kind::json_schema.
struct ResponseFormat {
  enum class Kind { text, json_object, json_schema };
  Kind kind = Kind::text;
  json::value schema;
};

/// The schema inside a request's `response_format.json_schema`: its `schema` member, else its `json_schema` member,
/// else the value itself.
json::value schema_of(const json::value& json_schema);

/// Everything of a request that decides its prompt.
struct ChatInput {
  std::vector<ChatMessage> messages;
  json::array tools;  ///< as sent: objects with `type` and `function`
  ToolChoice tool_choice = ToolChoice::automatic;
  std::string tool_name;  ///< for ToolChoice::named
  bool thinking = true;
  std::optional<std::string> effort = "max";  ///< nullopt: no effort message; ignored when thinking is off
  ResponseFormat response_format;
  bool continue_final_message = false;  ///< the last message is an assistant's and is to be continued, not answered
};

}  // namespace perigee
