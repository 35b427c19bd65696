// Log-probabilities in OpenAI's two shapes. They cover every generated token, reasoning and marker tokens included.
#pragma once

#include <span>

#include "base/json.h"
#include "engine/request.h"
#include "text/tokenizer.h"

namespace perigee {

/// Chat: [{token, logprob, bytes, top_logprobs: [...]}]. `bytes` are the token's raw bytes; `token` may hold U+FFFD.
json::array chat_logprobs(const Tokenizer& tokenizer, std::span<const TokenOutput> tokens);

/// Completions: {tokens, token_logprobs, top_logprobs, text_offset}; appends to `out`, whose text so far has `offset`
/// bytes.
void append_completion_logprobs(const Tokenizer& tokenizer, std::span<const TokenOutput> tokens, int64_t& offset,
                                json::object& out);

}  // namespace perigee
