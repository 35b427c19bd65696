// The order in which messages are rendered: tool results are sorted into the order of the calls they answer.
//
// Called by the chat encoder only. Pure functions over the request's messages, which they refer to by index.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "text/chat.h"

namespace perigee {

/// A message's place in the prompt. `index` is its place in the request. For a tool message, `tool` is the name of the
/// function it answers and `tool_index` counts, from 1, the results since the last assistant message.
struct OrderedMessage {
  int index = 0;
  std::string tool;
  int tool_index = 0;
};

/// A run of neighbouring tool messages whose ids all name calls of the latest assistant message is stably sorted by
/// call and takes the called functions' names; any other run stays as it is. An id is a call's own id (the first call
/// on duplicates), or "{name}:{position from 0}". A tool message whose function stays unknown is an error.
Result<std::vector<OrderedMessage>> order_messages(const std::vector<ChatMessage>& messages);

}  // namespace perigee
