// POST /v1/completions: raw prompts (text or ids), no chat encoding, no parsers.

#include <ctime>

#include "api/generation.h"
#include "api/logprobs.h"
#include "api/service.h"

namespace perigee {
namespace {

/// Prompts one call may bring.
constexpr size_t kMaxPrompts = 128;

struct CompletionRequest {
  std::vector<std::vector<int32_t>> prompts;
  SamplingFields sampling;
  std::string rid;
  bool stream = false;
  bool include_usage = false;
  bool echo = false;
};

/// A string, a list of strings, a list of ids, or a list of lists of ids.
void read_prompts(const Service& service, Fields& fields, CompletionRequest& request) {
  const json::value* prompt = fields.find("prompt");
  const int64_t below = service.options.vocab;
  const auto encode = [&](const json::value& text) {
    request.prompts.push_back(service.tokenizer->encode(text.get_string(), Specials::as_ids));
  };
  const auto wrong = [&] {
    fields.fail(
        "prompt",
        fmt::format("must be a string, a list of strings, token ids in [0, {}), or a list of such lists", below));
  };
  if (prompt == nullptr) return fields.fail("prompt", "is missing");
  if (prompt->is_string()) return encode(*prompt);
  if (!prompt->is_array() || prompt->get_array().empty()) return wrong();
  const json::array& list = prompt->get_array();
  if (list[0].is_int64()) {
    auto ids = read_ids(list, below);
    if (!ids) return wrong();
    request.prompts.push_back(std::move(*ids));
    return;
  }
  if (list.size() > kMaxPrompts)
    return fields.fail("prompt", fmt::format("must not hold more than {} prompts", kMaxPrompts));
  for (const auto& item : list) {
    if (item.is_string()) {
      encode(item);
      continue;
    }
    auto ids = item.is_array() ? read_ids(item.get_array(), below) : std::nullopt;
    if (!ids) return wrong();
    request.prompts.push_back(std::move(*ids));
  }
}

Result<CompletionRequest, ApiError> read_request(const Service& service, const json::object& body) {
  Fields fields(body);
  if (const auto error = check_model(service, fields)) return *error;
  CompletionRequest request;
  read_prompts(service, fields, request);
  request.sampling = read_sampling(fields, service.options.vocab, service.options.limits);
  refuse_constraints(fields);
  request.rid = fields.text("rid", service.options.limits.id_bytes).value_or("");
  request.stream = fields.boolean("stream").value_or(false);
  if (const json::object* options = fields.object("stream_options")) {
    Fields inner(*options, "stream_options.");
    request.include_usage = inner.boolean("include_usage").value_or(false);
    if (inner.error()) return *inner.error();
  }
  request.echo = fields.boolean("echo").value_or(false);
  if (const auto logprobs = fields.integer("logprobs", 0, service.options.limits.top_logprobs)) {
    request.sampling.params.logprobs = static_cast<int32_t>(*logprobs);
    if (request.echo) fields.fail("logprobs", "together with echo is not supported yet");
  }
  if (fields.find("suffix") != nullptr) fields.fail("suffix", "is not supported");
  if (fields.integer("best_of", 1, service.options.limits.choices).value_or(request.sampling.choices) !=
      request.sampling.choices) {
    fields.fail("best_of", "is not supported");
  }
  if (fields.error()) return *fields.error();
  // OpenAI's default for this endpoint; chat has none.
  if (request.sampling.params.max_new_tokens == 0) request.sampling.params.max_new_tokens = 16;
  for (const auto& prompt : request.prompts) {
    if (const auto error = settle_max_tokens(service, prompt.size(), request.sampling.params)) return *error;
  }
  return request;
}

/// The answer of one call; updates arrive on the strand of the prompt's generation, so a mutex joins several prompts.
class CompletionAnswer {
 public:
  CompletionAnswer(ServicePtr service, CompletionRequest request, std::string id, std::shared_ptr<Reply> reply)
      : service_(std::move(service)),
        request_(std::move(request)),
        id_(std::move(id)),
        created_(std::time(nullptr)),
        reply_(std::move(reply)) {
    choices_.resize(request_.prompts.size() * static_cast<size_t>(request_.sampling.choices));
  }

  void update(size_t prompt, ChoiceUpdate& update) {
    const std::lock_guard lock(mutex_);
    if (failed_) return;
    const size_t index = prompt * static_cast<size_t>(request_.sampling.choices) + static_cast<size_t>(update.choice);
    ChoiceState& choice = choices_[index];
    choice.completion_tokens = update.completion_tokens;
    if (update.ended && update.finish_reason == "error")
      return fail({.status = 500, .message = update.error, .param = {}, .code = {}});
    std::string text = update.delta.content;
    if (request_.echo && !choice.opened) text = service_->tokenizer->decode(request_.prompts[prompt], true) + text;
    choice.opened = true;
    if (request_.sampling.params.logprobs >= 0) {
      if (request_.stream) choice.logprobs = {};
      append_completion_logprobs(*service_->tokenizer, update.tokens, choice.offset, choice.logprobs);
    }
    choice.text += text;
    choice.finish = update.ended ? json::value(update.finish_reason) : json::value(nullptr);
    choice.matched = update.matched_stop;
    if (request_.stream) stream(index, text, update);
    if (update.ended && ++ended_ == choices_.size()) complete();
  }

  void fail(const ApiError& error) {
    failed_ = true;
    send_failure(*reply_, stream_.get(), error);
  }

 private:
  struct ChoiceState {
    std::string text;
    json::object logprobs;
    json::value finish;
    json::value matched;
    int64_t completion_tokens = 0;
    int64_t offset = 0;
    bool opened = false;
  };

  json::object choice_object(size_t index, std::string_view text) {
    const ChoiceState& choice = choices_[index];
    json::object object = {
        {"index", index},
        {"text", text},
        {"logprobs", request_.sampling.params.logprobs >= 0 ? json::value(choice.logprobs) : json::value(nullptr)},
        {"finish_reason", choice.finish}};
    if (!choice.finish.is_null()) object["matched_stop"] = choice.matched;
    return object;
  }

  json::object body(json::array choices) const {
    return {{"id", id_},
            {"object", "text_completion"},
            {"created", created_},
            {"model", service_->options.model_name},
            {"choices", std::move(choices)}};
  }

  json::object usage() const {
    int64_t prompt = 0;
    int64_t completion = 0;
    for (const auto& ids : request_.prompts) prompt += static_cast<int64_t>(ids.size());
    for (const ChoiceState& choice : choices_) completion += choice.completion_tokens;
    return {{"prompt_tokens", prompt},
            {"completion_tokens", completion},
            {"total_tokens", prompt + completion},
            {"prompt_tokens_details", json::object{{"cached_tokens", 0}}}};
  }

  void stream(size_t index, const std::string& text, const ChoiceUpdate& update) {
    if (stream_ == nullptr) stream_ = reply_->start_stream();
    if (text.empty() && !update.ended && request_.sampling.params.logprobs < 0) return;
    stream_->send(json_dump(body({choice_object(index, text)})));
  }

  void complete() {
    if (stream_ != nullptr) {
      if (request_.include_usage) {
        json::object last = body({});
        last["usage"] = usage();
        stream_->send(json_dump(last));
      }
      return finish_stream(*stream_);
    }
    json::array list;
    for (size_t i = 0; i < choices_.size(); ++i) list.push_back(choice_object(i, choices_[i].text));
    json::object whole = body(std::move(list));
    whole["usage"] = usage();
    reply_->send({.body = json_dump(whole)});
  }

  ServicePtr service_;
  CompletionRequest request_;
  std::string id_;
  int64_t created_;
  std::shared_ptr<Reply> reply_;
  std::shared_ptr<EventStream> stream_;
  std::mutex mutex_;
  std::vector<ChoiceState> choices_;
  size_t ended_ = 0;
  bool failed_ = false;
};

Result<void, ApiError> complete(const ServicePtr& service, const json::object& body,
                                const std::shared_ptr<Reply>& reply) {
  auto request = read_request(*service, body);
  if (!request) return request.error();
  const std::string id = request->rid.empty() ? service->make_id("cmpl") : request->rid;
  const auto prompts = request->prompts;
  const SamplingFields sampling = request->sampling;
  const auto answer = std::make_shared<CompletionAnswer>(service, std::move(*request), id, reply);
  std::vector<std::shared_ptr<Generation>> running;
  for (size_t i = 0; i < prompts.size(); ++i) {
    GenerationRequest generation{.id = prompts.size() == 1 ? id : fmt::format("{}-p{}", id, i),
                                 .prompt = prompts[i],
                                 .message_ends = {},
                                 .sampling = sampling,
                                 .chat = {}};
    const auto started = Generation::start(service, std::move(generation),
                                           [answer, i](ChoiceUpdate& update) { answer->update(i, update); });
    if (!started) {
      for (const auto& earlier : running) earlier->cancel("another prompt was refused");
      if (running.empty()) return started.error();
      answer->fail(started.error());
      return {};
    }
    running.push_back(*started);
  }
  reply->on_disconnect([running](Disconnect reason) {
    for (const auto& generation : running) generation->cancel(std::string(disconnect_name(reason)));
  });
  return {};
}

}  // namespace

void add_completion_route(Router& router, const ServicePtr& service) {
  router.add(
      "POST", "/v1/completions",
      json_handler(service, [service](const json::object& body, const auto&, const std::shared_ptr<Reply>& reply) {
        return complete(service, body, reply);
      }));
}

}  // namespace perigee
