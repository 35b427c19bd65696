// Everything that does not generate for a caller: models, health, metrics, information, tokenisation, aborts.

#include <ctime>

#include "api/generation.h"
#include "api/service.h"

namespace perigee {
namespace {

void send_json(const std::shared_ptr<Reply>& reply, const json::value& body) {
  reply->send({.body = json_dump(body)});
}

json::object model_entry(const Service& s) {
  return {{"id", s.options.model_name},   {"object", "model"},
          {"created", s.started_unix},    {"owned_by", "perigee"},
          {"root", s.options.model_path}, {"max_model_len", s.options.context_length}};
}

json::object server_info(const Service& s) {
  json::object info = s.options.server_info;
  const EngineStats stats = s.engine->stats();
  info["state"] = {{"running", stats.scheduler.running},
                   {"queued", stats.scheduler.queued},
                   {"pages_free", stats.scheduler.pages_free},
                   {"pages_total", stats.scheduler.pages_total},
                   {"slots_free", stats.scheduler.slots_free},
                   {"slots_total", stats.scheduler.slots_total},
                   {"steps", stats.steps},
                   {"finished", stats.finished},
                   {"cancelled", stats.cancelled},
                   {"failed", stats.failed},
                   {"invariant_violations", stats.violations},
                   {"healthy", stats.healthy},
                   {"draining", stats.draining}};
  return info;
}

void health(const Service& s, const std::shared_ptr<Reply>& reply) {
  const EngineStats stats = s.engine->stats();
  if (s.ready && stats.healthy && !stats.draining) return reply->send({.content_type = "text/plain", .body = "ok\n"});
  const std::string why = !stats.healthy ? "the device failed repeatedly" : "the server is shutting down";
  reply->send(error_response({.status = 503, .message = why, .param = {}, .code = {}}));
}

/// One token through the whole path.
void health_generate(const ServicePtr& service, const std::shared_ptr<Reply>& reply) {
  SamplingFields sampling;
  sampling.params.temperature = 0;
  sampling.params.max_new_tokens = 1;
  sampling.params.ignore_eos = true;
  GenerationRequest request{
      .id = service->make_id("health"), .prompt = {0}, .message_ends = {}, .sampling = sampling, .chat = {}};

  const auto started = Generation::start(service, std::move(request), [reply](ChoiceUpdate& update) {
    if (!update.ended) return;
    if (update.finish_reason == "error")
      return reply->send(error_response({.status = 503, .message = update.error, .param = {}, .code = {}}));
    reply->send({.content_type = "text/plain", .body = "ok\n"});
  });
  if (!started)
    return reply->send(error_response({.status = 503, .message = started.error().message, .param = {}, .code = {}}));
  reply->on_disconnect([running = *started](Disconnect) { running->cancel("client closed"); });
}

Result<void, ApiError> tokenize(const Service& s, const json::object& body, const std::shared_ptr<Reply>& reply) {
  Fields fields(body);
  if (const auto error = check_model(s, fields)) return *error;
  const auto prompt = fields.text("prompt");
  const auto text = prompt ? prompt : fields.text("text");
  if (!text && !fields.error()) fields.fail("prompt", "is missing");
  if (fields.error()) return *fields.error();
  const auto ids = s.tokenizer->encode(*text, Specials::as_ids);
  send_json(reply, json::object{{"tokens", json::array(ids.begin(), ids.end())},
                                {"count", ids.size()},
                                {"max_model_len", s.options.context_length}});
  return {};
}

Result<void, ApiError> detokenize(const Service& s, const json::object& body, const std::shared_ptr<Reply>& reply) {
  Fields fields(body);
  if (const auto error = check_model(s, fields)) return *error;
  const auto ids = fields.ids("tokens", s.tokenizer->vocab_size());
  const bool skip = fields.boolean("skip_special_tokens").value_or(true);
  if (!ids && !fields.error()) fields.fail("tokens", "is missing");
  if (fields.error()) return *fields.error();
  const std::string text = s.tokenizer->decode(*ids, skip);
  send_json(reply, json::object{{"prompt", text}, {"text", text}});
  return {};
}

Result<void, ApiError> abort_request(const Service& s, const json::object& body, const std::shared_ptr<Reply>& reply) {
  Fields fields(body);
  const auto rid = fields.text("rid");
  const bool all = fields.boolean("abort_all").value_or(false);
  if (!rid && !all && !fields.error()) fields.fail("rid", "or abort_all must be given");
  if (fields.error()) return *fields.error();
  if (all) {
    s.engine->cancel_all("aborted");
  } else {
    s.engine->cancel(*rid, "aborted");
    for (int64_t i = 0; i < s.options.limits.choices; ++i) s.engine->cancel(fmt::format("{}-{}", *rid, i), "aborted");
  }
  send_json(reply, json::object{{"success", true}});
  return {};
}

}  // namespace

void add_token_routes(Router& router, const ServicePtr& service) {
  for (const char* path : {"/tokenize", "/v1/tokenize"}) {
    router.add("POST", path, json_handler(service, [service](const json::object& body, const auto&, const auto& reply) {
                 return tokenize(*service, body, reply);
               }));
  }
  for (const char* path : {"/detokenize", "/v1/detokenize"}) {
    router.add("POST", path, json_handler(service, [service](const json::object& body, const auto&, const auto& reply) {
                 return detokenize(*service, body, reply);
               }));
  }
}

void add_admin_routes(Router& router, const ServicePtr& service) {
  const auto get = [&](std::string_view path, auto body) {
    router.add("GET", path, keyed_handler(service, [service, body](const auto& request, const auto& reply) {
                 body(service, request, reply);
               }));
  };
  // Load balancers ask without a key.
  router.add("GET", "/health", [service](const auto&, const auto& reply) { health(*service, reply); });
  router.add("GET", "/health_generate", [service](const auto&, const auto& reply) { health_generate(service, reply); });
  router.add("GET", "/metrics", [service](const auto&, const auto& reply) {
    reply->send({.content_type = std::string(kMetricsContentType), .body = service->metrics->render()});
  });
  get("/v1/models", [](const ServicePtr& s, const auto&, const auto& reply) {
    send_json(reply, json::object{{"object", "list"}, {"data", json::array{model_entry(*s)}}});
  });
  get("/v1/models/{id...}", [](const ServicePtr& s, const auto& request, const auto& reply) {
    if (request->path_parameter("id") == s->options.model_name) return send_json(reply, model_entry(*s));
    reply->send(error_response({.status = 404,
                                .message = fmt::format("the model {} does not exist", request->path_parameter("id")),
                                .param = "model",
                                .code = "model_not_found"}));
  });
  for (const char* path : {"/server_info", "/get_server_info"}) {
    get(path, [](const ServicePtr& s, const auto&, const auto& reply) { send_json(reply, server_info(*s)); });
  }
  for (const char* path : {"/get_model_info", "/model_info"}) {
    get(path, [](const ServicePtr& s, const auto&, const auto& reply) {
      send_json(reply, json::object{{"model_path", s->options.model_path},
                                    {"tokenizer_path", s->options.model_path},
                                    {"is_generation", true}});
    });
  }
  router.add("POST", "/abort_request",
             json_handler(service, [service](const json::object& body, const auto&, const auto& reply) {
               return abort_request(*service, body, reply);
             }));
  // Nothing is kept across requests yet, so there is nothing to flush.
  router.add("POST", "/flush_cache", keyed_handler(service, [](const auto&, const auto& reply) {
               send_json(reply, json::object{{"success", true}});
             }));
}

}  // namespace perigee
