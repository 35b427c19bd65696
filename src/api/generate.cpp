// POST /generate: SGLang's native endpoint; text or input_ids in, text and output_ids out, cumulative when streamed.

#include "api/generation.h"
#include "api/service.h"

namespace perigee {
namespace {

struct NativeRequest {
  std::vector<int32_t> prompt;
  SamplingFields sampling;
  std::string rid;
  bool stream = false;
  bool return_logprob = false;
};

Result<NativeRequest, ApiError> read_request(const Service& service, const json::object& body) {
  Fields fields(body);
  NativeRequest request;
  const auto text = fields.text("text");
  const auto ids = fields.ids("input_ids", service.options.vocab);
  if (!fields.error() && text.has_value() == ids.has_value())
    fields.fail("text", "or input_ids must be given, and not both");
  if (fields.error()) return *fields.error();
  request.prompt = text ? service.tokenizer->encode(*text, Specials::as_ids) : *ids;
  const json::object none;
  const json::object* params = fields.object("sampling_params");
  Fields inner(params != nullptr ? *params : none, "sampling_params.");
  request.sampling = read_sampling(inner, service.options.vocab, service.options.limits);
  refuse_constraints(inner);
  if (request.sampling.choices != 1) inner.fail("n", "must be 1 here");
  request.rid = fields.text("rid", service.options.limits.id_bytes).value_or("");
  request.stream = fields.boolean("stream").value_or(false);
  request.return_logprob = fields.boolean("return_logprob").value_or(false);
  if (fields.find("image_data") != nullptr) fields.fail("image_data", "is not supported yet");
  if (inner.error()) return *inner.error();
  if (fields.error()) return *fields.error();
  if (request.return_logprob) {
    request.sampling.params.logprobs =
        static_cast<int32_t>(fields.integer("top_logprobs_num", 0, service.options.limits.top_logprobs).value_or(0));
  }
  if (request.sampling.params.max_new_tokens == 0) request.sampling.params.max_new_tokens = 128;
  if (const auto error = settle_max_tokens(service, request.prompt.size(), request.sampling.params)) return *error;
  return request;
}

class NativeAnswer {
 public:
  NativeAnswer(NativeRequest request, std::string id, std::shared_ptr<Reply> reply)
      : request_(std::move(request)), id_(std::move(id)), reply_(std::move(reply)) {}

  void update(ChoiceUpdate& update) {
    text_ += update.delta.content;
    for (const TokenOutput& token : update.tokens) {
      ids_.push_back(token.id);
      if (request_.return_logprob) logprobs_.push_back(json::array{token.logprob, token.id, nullptr});
    }
    if (update.ended && update.finish_reason == "error") return fail(update.error);
    if (request_.stream) {
      if (stream_ == nullptr) stream_ = reply_->start_stream();
      stream_->send(json_dump(body(update)));
    }
    if (!update.ended) return;
    if (stream_ != nullptr) {
      finish_stream(*stream_);
    } else {
      reply_->send({.body = json_dump(body(update))});
    }
  }

 private:
  json::object body(const ChoiceUpdate& update) const {
    json::value reason(nullptr);
    if (update.ended) {
      json::object object = {{"type", update.finish_reason}};
      if (update.finish_reason == "stop") object["matched"] = update.matched_stop;
      if (update.finish_reason == "length") object["length"] = request_.sampling.params.max_new_tokens;
      reason = object;
    }
    json::object meta = {{"id", id_},
                         {"finish_reason", reason},
                         {"prompt_tokens", request_.prompt.size()},
                         {"completion_tokens", update.completion_tokens},
                         {"cached_tokens", 0}};
    if (request_.return_logprob) meta["output_token_logprobs"] = logprobs_;
    return {{"text", text_}, {"output_ids", json::array(ids_.begin(), ids_.end())}, {"meta_info", meta}};
  }

  void fail(const std::string& message) {
    const ApiError error{.status = 500, .message = message, .param = {}, .code = {}};
    send_failure(*reply_, stream_.get(), error);
  }

  NativeRequest request_;
  std::string id_;
  std::shared_ptr<Reply> reply_;
  std::shared_ptr<EventStream> stream_;
  std::string text_;
  std::vector<int32_t> ids_;
  json::array logprobs_;
};

Result<void, ApiError> generate(const ServicePtr& service, const json::object& body,
                                const std::shared_ptr<Reply>& reply) {
  auto request = read_request(*service, body);
  if (!request) return request.error();
  const std::string id = request->rid.empty() ? service->make_id("gen") : request->rid;
  GenerationRequest generation{
      .id = id, .prompt = request->prompt, .message_ends = {}, .sampling = request->sampling, .chat = {}};
  const auto answer = std::make_shared<NativeAnswer>(std::move(*request), id, reply);
  return start_for(service, std::move(generation), reply, [answer](ChoiceUpdate& update) { answer->update(update); });
}

}  // namespace

void add_generate_route(Router& router, const ServicePtr& service) {
  router.add(
      "POST", "/generate",
      json_handler(service, [service](const json::object& body, const auto&, const std::shared_ptr<Reply>& reply) {
        return generate(service, body, reply);
      }));
}

}  // namespace perigee
