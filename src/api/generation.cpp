#include "api/generation.h"

#include <algorithm>

#include "text/detokenizer.h"
#include "text/stop_matcher.h"

namespace perigee {
namespace {

ApiError to_api_error(const SubmitError& error) {
  using Kind = SubmitError::Kind;
  switch (error.kind) {
    case Kind::too_long:
      return {.status = 400, .message = error.message, .param = "max_tokens", .code = "context_length_exceeded"};
    case Kind::duplicate_id:
      return {.status = 400, .message = error.message, .param = "rid", .code = {}};
    default:
      return {.status = 503, .message = error.message, .param = {}, .code = {}};
  }
}

}  // namespace

/// One answer's text. On the Strand only.
class Generation::Choice {
 public:
  Choice(const Service& service, const GenerationRequest& request, int index, std::string id)
      : service_(service),
        id_(std::move(id)),
        detokenizer_(*service.tokenizer),
        content_stop_(request.sampling.stops, request.sampling.keep_stop),
        reasoning_stop_(request.sampling.stops, request.sampling.keep_stop),
        skip_special_(request.sampling.skip_special_tokens),
        started_(SteadyClock().now()) {
    if (request.chat) parser_.emplace(*service.tokenizer, *request.chat);
    update_.choice = index;
  }

  bool ended() const { return ended_; }

  /// True when something is to be shown.
  bool take(std::span<const TokenOutput> tokens) {
    time_tokens(tokens.size());
    for (const TokenOutput& token : tokens) {
      if (ended_) break;
      ++update_.completion_tokens;
      update_.tokens.push_back(token);
      show(decode(token.id));
      check_end();
    }
    pending_ += static_cast<int64_t>(tokens.size());
    return ended_ || pending_ >= service_.options.stream_interval;
  }

  /// The engine's last word; nothing when a stop string ended the choice before.
  bool finish(const Finish& finish) {
    service_.metrics->request_finished(finish);
    service_.metrics->request_ended(seconds(SteadyClock().now() - started_));
    if (ended_) return false;
    flush();
    if (!ended_) {
      end(reason_name(finish), finish.stop_id ? json::value(*finish.stop_id) : json::value(nullptr));
      update_.error = finish.reason == FinishReason::error ? finish.message : "";
    }
    return true;
  }

  ChoiceUpdate& update() {
    if (parser_) update_.reasoning_tokens = parser_->reasoning_tokens();
    return update_;
  }
  void shown() {
    update_.delta = {};
    update_.tokens.clear();
    pending_ = 0;
  }
  const std::string& id() const { return id_; }

 private:
  ChatDelta decode(int32_t token) {
    if (parser_) return parser_->push(token);
    if (skip_special_ && service_.tokenizer->is_skipped(token)) return {};
    ChatDelta delta;
    delta.content = detokenizer_.push(token);
    return delta;
  }

  /// Through the stop matchers, one per channel; a channel that ends gives back what it held.
  void show(const ChatDelta& delta) {
    if (!delta.reasoning.empty()) update_.delta.reasoning += reasoning_stop_.push(delta.reasoning);
    if (reasoning_stop_.matched()) return;
    if (!delta.content.empty() || !delta.tool_calls.empty()) update_.delta.reasoning += reasoning_stop_.flush();
    if (!delta.content.empty()) update_.delta.content += content_stop_.push(delta.content);
    if (content_stop_.matched() || delta.tool_calls.empty()) return;
    update_.delta.content += content_stop_.flush();
    auto& calls = update_.delta.tool_calls;
    calls.insert(calls.end(), delta.tool_calls.begin(), delta.tool_calls.end());
  }

  void check_end() {
    for (const StopMatcher* matcher : {&reasoning_stop_, &content_stop_}) {
      if (matcher->matched() && !ended_) {
        end("stop", json::value(matcher->matched_stop()));
        service_.engine->cancel(id_, "stop string");
      }
    }
    if (!ended_ && parser_ && parser_->tools_closed()) {
      end(parser_->complete_tool_calls() > 0 ? "tool_calls" : "stop", nullptr);
      service_.engine->cancel(id_, "tool calls complete");
    }
  }

  /// The end of the text: what the decoder and the matchers held back.
  void flush() {
    ChatDelta rest;
    if (parser_) {
      rest = parser_->finish();
    } else {
      rest.content = detokenizer_.flush();
    }
    show(rest);
    check_end();
    if (ended_) return;
    update_.delta.reasoning += reasoning_stop_.flush();
    update_.delta.content += content_stop_.flush();
  }

  std::string reason_name(const Finish& finish) const {
    switch (finish.reason) {
      case FinishReason::stop:
        return parser_ && parser_->complete_tool_calls() > 0 ? "tool_calls" : "stop";
      case FinishReason::length:
        return "length";
      case FinishReason::cancelled:
        return "abort";
      case FinishReason::error:
        return "error";
    }
    return "stop";
  }

  void end(std::string reason, json::value matched) {
    ended_ = true;
    update_.ended = true;
    update_.finish_reason = std::move(reason);
    update_.matched_stop = std::move(matched);
  }

  void time_tokens(size_t count) {
    const TimePoint now = SteadyClock().now();
    for (size_t i = 0; i < count; ++i) {
      if (update_.completion_tokens == 0 && i == 0) {
        service_.metrics->first_token(seconds(now - started_));
      } else {
        service_.metrics->next_token(seconds(now - last_));
      }
      last_ = now;
    }
  }

  const Service& service_;
  std::string id_;
  std::optional<ChatParser> parser_;
  Detokenizer detokenizer_;
  StopMatcher content_stop_;
  StopMatcher reasoning_stop_;
  bool skip_special_;
  bool ended_ = false;
  int64_t pending_ = 0;
  ChoiceUpdate update_;
  TimePoint started_;
  TimePoint last_{};
};

/// The engine's side: copies and posts, nothing else.
class Generation::ChoiceSink final : public Sink {
 public:
  ChoiceSink(std::shared_ptr<Generation> generation, std::shared_ptr<Choice> choice)
      : generation_(std::move(generation)), choice_(std::move(choice)) {}

  void on_tokens(std::span<const TokenOutput> tokens) override {
    generation_->strand_->post(
        [generation = generation_, choice = choice_, copy = std::vector<TokenOutput>(tokens.begin(), tokens.end())] {
          const std::lock_guard lock(generation->gate_);
          if (generation->refused_ || choice->ended() || !choice->take(copy)) return;
          generation->on_update_(choice->update());
          choice->shown();
        });
  }

  void on_finish(const Finish& finish) override {
    generation_->strand_->post([generation = generation_, choice = choice_, finish] {
      const std::lock_guard lock(generation->gate_);
      if (!choice->finish(finish) || generation->refused_) return;
      generation->on_update_(choice->update());
      choice->shown();
    });
  }

 private:
  std::shared_ptr<Generation> generation_;
  std::shared_ptr<Choice> choice_;
};

Generation::Generation(const ServicePtr& service, UpdateHandler on_update)
    : service_(service), on_update_(std::move(on_update)), strand_(std::make_shared<Strand>(*service->tasks)) {}

Generation::~Generation() = default;

Result<std::shared_ptr<Generation>, ApiError> Generation::start(const ServicePtr& service, GenerationRequest request,
                                                                UpdateHandler on_update) {
  const std::shared_ptr<Generation> generation(new Generation(service, std::move(on_update)));
  SamplingParams params = request.sampling.params;
  if (!params.ignore_eos) {
    params.stop_ids.insert(params.stop_ids.end(), service->options.eos_ids.begin(), service->options.eos_ids.end());
  }
  const std::lock_guard lock(generation->gate_);
  for (int i = 0; i < request.sampling.choices; ++i) {
    Request one;
    one.id = request.sampling.choices == 1 ? request.id : fmt::format("{}-{}", request.id, i);
    one.prompt = request.prompt;
    one.message_ends = request.message_ends;
    one.sampling = params;
    if (params.seed) one.sampling.seed = *params.seed + static_cast<uint64_t>(i);
    generation->ids_.push_back(one.id);
    auto choice = std::make_shared<Choice>(*service, request, i, one.id);
    const auto submitted =
        service->engine->submit(std::move(one), std::make_shared<ChoiceSink>(generation, std::move(choice)));
    if (submitted) continue;
    // All or none: the ones already in are taken back, and nobody listens to them any more.
    generation->ids_.pop_back();
    generation->refused_ = true;
    generation->cancel("another choice was refused");
    return to_api_error(submitted.error());
  }
  return generation;
}

void Generation::cancel(const std::string& reason) {
  for (const std::string& id : ids_) service_->engine->cancel(id, reason);
}

Result<void, ApiError> start_for(const ServicePtr& service, GenerationRequest request,
                                 const std::shared_ptr<Reply>& reply, UpdateHandler on_update) {
  const auto started = Generation::start(service, std::move(request), std::move(on_update));
  if (!started) return started.error();
  reply->on_disconnect(
      [running = *started](Disconnect reason) { running->cancel(std::string(disconnect_name(reason))); });
  return {};
}

void finish_stream(EventStream& stream) {
  stream.send("[DONE]");
  stream.close();
}

void send_failure(Reply& reply, EventStream* stream, const ApiError& error) {
  if (stream == nullptr) return reply.send(error_response(error));
  stream->send(json_dump(error_object(error)));
  finish_stream(*stream);
}

std::optional<ApiError> settle_max_tokens(const Service& service, size_t prompt_tokens, SamplingParams& params) {
  const int64_t room = service.options.context_length - static_cast<int64_t>(prompt_tokens);
  if (prompt_tokens == 0) return bad_request("the prompt is empty");
  if (room < 1) {
    return ApiError{.status = 400,
                    .message = fmt::format("the prompt has {} tokens, the context length is {}", prompt_tokens,
                                           service.options.context_length),
                    .param = "messages",
                    .code = "context_length_exceeded"};
  }
  if (params.max_new_tokens == 0) params.max_new_tokens = room;
  if (params.max_new_tokens > room) {
    return ApiError{.status = 400,
                    .message = fmt::format(
                        "the prompt has {} tokens and max_tokens is {}: together they exceed the context length of {}",
                        prompt_tokens, params.max_new_tokens, service.options.context_length),
                    .param = "max_tokens",
                    .code = "context_length_exceeded"};
  }
  return std::nullopt;
}

}  // namespace perigee
