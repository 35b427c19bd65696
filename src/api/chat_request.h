// ChatRequest: /v1/chat/completions as a plain struct, read from its JSON with every field checked.
#pragma once

#include "api/sampling.h"
#include "text/chat.h"
#include "text/chat_encoder.h"

namespace perigee {

struct ChatRequest {
  ChatInput input;
  SamplingFields sampling;
  std::string rid;  ///< given by the client; empty: made by the server
  bool stream = false;
  bool include_usage = false;
  bool continuous_usage = false;
  bool logprobs = false;
  bool separate_reasoning = true;
  bool stream_reasoning = true;
};

Result<ChatRequest, ApiError> read_chat_request(const json::object& body, int64_t vocab, const ApiLimits& limits,
                                                const std::vector<std::string>& efforts);

/// One message; `index` is for the error's param.
Result<ChatMessage, ApiError> read_message(const json::value& value, size_t index);

}  // namespace perigee
