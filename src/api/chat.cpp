// POST /v1/chat/completions, streaming and not.

#include <ctime>

#include "api/chat_request.h"
#include "api/generation.h"
#include "api/logprobs.h"
#include "api/service.h"

namespace perigee {
namespace {

/// The reference API does not bill the three tokens of the channel stub at the end of the prompt.
constexpr int64_t kUnbilledStub = 3;

json::value matched_stop(const ChoiceUpdate& update) {
  return update.finish_reason == "tool_calls" ? json::value(nullptr) : update.matched_stop;
}

json::value finish_reason(const ChoiceUpdate& update) {
  return update.ended ? json::value(update.finish_reason) : json::value(nullptr);
}

json::array tool_deltas(const std::vector<ToolCallDelta>& calls) {
  json::array list;
  for (const ToolCallDelta& call : calls) {
    json::object function;
    json::object one = {{"index", call.index}};
    if (!call.id.empty()) {
      one["id"] = call.id;
      one["type"] = "function";
      function["name"] = call.name;
    }
    function["arguments"] = call.arguments;
    one["function"] = function;
    list.push_back(one);
  }
  return list;
}

/// One call of the endpoint: counts, and the answer as it grows. On the generation's strand.
class ChatAnswer {
 public:
  ChatAnswer(ServicePtr service, ChatRequest request, std::string id, int64_t prompt_tokens,
             std::shared_ptr<Reply> reply)
      : service_(std::move(service)),
        request_(std::move(request)),
        id_(std::move(id)),
        created_(std::time(nullptr)),
        prompt_tokens_(std::max<int64_t>(0, prompt_tokens - kUnbilledStub)),
        reply_(std::move(reply)),
        choices_(static_cast<size_t>(request_.sampling.choices)) {}

  void update(ChoiceUpdate& update) {
    ChoiceState& choice = choices_[static_cast<size_t>(update.choice)];
    choice.completion_tokens = update.completion_tokens;
    choice.reasoning_tokens = update.reasoning_tokens;
    if (update.ended && update.finish_reason == "error") return fail(update.error);
    if (request_.stream) {
      stream(update, choice);
    } else {
      collect(update, choice);
    }
    if (update.ended && ++ended_ == choices_.size()) complete();
  }

 private:
  struct ChoiceState {
    bool opened = false;
    ChatCollector collector;
    json::array logprobs;
    json::value finish;
    json::value matched;
    int64_t completion_tokens = 0;
    int64_t reasoning_tokens = 0;
  };

  json::object head(std::string_view object) const {
    return {{"id", id_}, {"object", object}, {"created", created_}, {"model", service_->options.model_name}};
  }

  json::object usage() const {
    int64_t completion = 0;
    int64_t reasoning = 0;
    for (const ChoiceState& choice : choices_) {
      completion += choice.completion_tokens;
      reasoning += choice.reasoning_tokens;
    }
    return {{"prompt_tokens", prompt_tokens_},
            {"completion_tokens", completion},
            {"total_tokens", prompt_tokens_ + completion},
            {"prompt_tokens_details", json::object{{"cached_tokens", 0}}},
            {"completion_tokens_details", json::object{{"reasoning_tokens", reasoning}}}};
  }

  void fail(const std::string& message) {
    if (failed_) return;
    failed_ = true;
    const ApiError error{
        .status = 500, .message = message.empty() ? "the request failed" : message, .param = {}, .code = {}};
    send_failure(*reply_, stream_.get(), error);
  }

  // ---- streaming ----

  void send_chunk(const ChoiceUpdate& update, json::object delta, json::value logprobs, bool last) {
    json::object chunk = head("chat.completion.chunk");
    json::object choice = {{"index", update.choice},
                           {"delta", std::move(delta)},
                           {"logprobs", std::move(logprobs)},
                           {"finish_reason", last ? finish_reason(update) : json::value(nullptr)}};
    if (last && update.ended) choice["matched_stop"] = matched_stop(update);
    chunk["choices"] = json::array{choice};
    if (request_.continuous_usage) {
      chunk["usage"] = usage();
    } else if (request_.include_usage) {
      chunk["usage"] = nullptr;
    }
    stream_->send(json_dump(chunk));
  }

  void stream(ChoiceUpdate& update, ChoiceState& choice) {
    if (failed_) return;
    if (stream_ == nullptr) stream_ = reply_->start_stream();
    if (!choice.opened) {
      choice.opened = true;
      send_chunk({.choice = update.choice}, {{"role", "assistant"}, {"content", ""}}, nullptr, false);
    }
    json::value logprobs =
        request_.logprobs ? json::value(json::object{{"content", chat_logprobs(*service_->tokenizer, update.tokens)}})
                          : json::value(nullptr);
    std::vector<json::object> deltas;
    if (!update.delta.reasoning.empty()) deltas.push_back({{"reasoning_content", update.delta.reasoning}});
    if (!update.delta.content.empty()) deltas.push_back({{"content", update.delta.content}});
    if (!update.delta.tool_calls.empty()) deltas.push_back({{"tool_calls", tool_deltas(update.delta.tool_calls)}});
    if (deltas.empty() && (update.ended || (request_.logprobs && !update.tokens.empty()))) deltas.emplace_back();
    for (size_t i = 0; i < deltas.size(); ++i) {
      send_chunk(update, std::move(deltas[i]), std::exchange(logprobs, nullptr),
                 update.ended && i + 1 == deltas.size());
    }
  }

  // ---- whole ----

  void collect(ChoiceUpdate& update, ChoiceState& choice) {
    choice.collector.add(update.delta);
    if (request_.logprobs) {
      for (auto& entry : chat_logprobs(*service_->tokenizer, update.tokens))
        choice.logprobs.push_back(std::move(entry));
    }
    choice.finish = finish_reason(update);
    choice.matched = matched_stop(update);
  }

  json::object message(const ParsedChat& parsed) const {
    json::object message = {
        {"role", "assistant"},
        {"content", parsed.content},
        {"reasoning_content", parsed.reasoning.empty() ? json::value(nullptr) : json::value(parsed.reasoning)}};
    json::array calls;
    for (const ParsedToolCall& call : parsed.tool_calls) {
      calls.push_back({{"id", call.id},
                       {"type", "function"},
                       {"function", json::object{{"name", call.name}, {"arguments", call.arguments}}}});
    }
    if (!calls.empty()) message["tool_calls"] = calls;
    return message;
  }

  void complete() {
    if (failed_) return;
    if (stream_ != nullptr) {
      if (request_.include_usage) {
        json::object chunk = head("chat.completion.chunk");
        chunk["choices"] = json::array{};
        chunk["usage"] = usage();
        stream_->send(json_dump(chunk));
      }
      return finish_stream(*stream_);
    }
    json::array list;
    for (size_t i = 0; i < choices_.size(); ++i) {
      ChoiceState& choice = choices_[i];
      list.push_back(
          {{"index", i},
           {"message", message(choice.collector.result())},
           {"logprobs", request_.logprobs ? json::value(json::object{{"content", std::move(choice.logprobs)}})
                                          : json::value(nullptr)},
           {"finish_reason", choice.finish},
           {"matched_stop", choice.matched}});
    }
    json::object body = head("chat.completion");
    body["choices"] = list;
    body["usage"] = usage();
    reply_->send({.body = json_dump(body)});
  }

  ServicePtr service_;
  ChatRequest request_;
  std::string id_;
  int64_t created_;
  int64_t prompt_tokens_;
  std::shared_ptr<Reply> reply_;
  std::shared_ptr<EventStream> stream_;
  std::vector<ChoiceState> choices_;
  size_t ended_ = 0;
  bool failed_ = false;
};

ChatParserOptions parser_options(const Service& service, const ChatRequest& request, const EncodedChat& prompt) {
  ChatParserOptions options;
  options.starts_in_think = prompt.starts_in_think;
  options.earlier_tool_calls = prompt.earlier_tool_calls;
  options.buffer_reasoning = !request.stream_reasoning;
  options.reasoning = !service.options.reasoning_parser ? ReasoningOutput::raw
                      : request.separate_reasoning      ? ReasoningOutput::separate
                                                        : ReasoningOutput::merged;
  options.tools = !service.options.tool_parser ? ToolOutput::raw
                  : prompt.tools_callable      ? ToolOutput::parsed
                                               : ToolOutput::cut;
  return options;
}

Result<void, ApiError> chat(const ServicePtr& service, const json::object& body, const std::shared_ptr<Reply>& reply) {
  Fields fields(body);
  if (const auto error = check_model(*service, fields)) return *error;
  auto request = read_chat_request(body, service->options.vocab, service->options.limits, service->encoder->efforts());
  if (!request) return request.error();
  auto prompt = service->encoder->encode(request->input);
  if (!prompt) return bad_request(prompt.error().message, "messages");
  if (const auto error = settle_max_tokens(*service, prompt->ids.size(), request->sampling.params)) return *error;

  GenerationRequest generation{.id = request->rid.empty() ? service->make_id("chatcmpl") : request->rid,
                               .prompt = std::move(prompt->ids),
                               .message_ends = std::move(prompt->message_ends),
                               .sampling = request->sampling,
                               .chat = parser_options(*service, *request, *prompt)};
  const auto prompt_tokens = static_cast<int64_t>(generation.prompt.size());
  const auto answer = std::make_shared<ChatAnswer>(service, std::move(*request), generation.id, prompt_tokens, reply);
  return start_for(service, std::move(generation), reply, [answer](ChoiceUpdate& update) { answer->update(update); });
}

}  // namespace

void add_chat_route(Router& router, const ServicePtr& service) {
  router.add(
      "POST", "/v1/chat/completions",
      json_handler(service, [service](const json::object& body, const auto&, const std::shared_ptr<Reply>& reply) {
        return chat(service, body, reply);
      }));
}

}  // namespace perigee
