#include "api/logprobs.h"

#include <algorithm>

namespace perigee {
namespace {

/// JSON has no -Infinity; a token that could not be drawn gets OpenAI's floor.
double finite(float logprob) {
  return std::max(-9999.0, static_cast<double>(logprob));
}

std::string token_text(const Tokenizer& tokenizer, int32_t id) {
  const int32_t one[] = {id};
  return tokenizer.decode(one);
}

json::object entry(const Tokenizer& tokenizer, int32_t id, float logprob) {
  json::array bytes;
  for (const char c : tokenizer.token_bytes(id)) bytes.push_back(static_cast<unsigned char>(c));
  return {{"token", token_text(tokenizer, id)}, {"logprob", finite(logprob)}, {"bytes", bytes}};
}

json::array& list_of(json::object& out, std::string_view key) {
  json::value& value = out[key];
  if (!value.is_array()) value = json::array{};
  return value.get_array();
}

}  // namespace

json::array chat_logprobs(const Tokenizer& tokenizer, std::span<const TokenOutput> tokens) {
  json::array list;
  for (const TokenOutput& token : tokens) {
    json::object one = entry(tokenizer, token.id, token.logprob);
    json::array top;
    for (const auto& [id, logprob] : token.top) top.push_back(entry(tokenizer, id, logprob));
    one["top_logprobs"] = top;
    list.push_back(one);
  }
  return list;
}

void append_completion_logprobs(const Tokenizer& tokenizer, std::span<const TokenOutput> tokens, int64_t& offset,
                                json::object& out) {
  for (const TokenOutput& token : tokens) {
    const std::string text = token_text(tokenizer, token.id);
    list_of(out, "tokens").push_back(json::value(text));
    list_of(out, "token_logprobs").push_back(finite(token.logprob));
    json::object top;
    for (const auto& [id, logprob] : token.top) top[token_text(tokenizer, id)] = finite(logprob);
    list_of(out, "top_logprobs").push_back(top);
    list_of(out, "text_offset").push_back(offset);
    offset += static_cast<int64_t>(text.size());
  }
}

}  // namespace perigee
