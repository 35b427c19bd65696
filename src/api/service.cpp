#include "api/service.h"

#include "base/log.h"

namespace perigee {
namespace {

/// Equal in time that does not depend on where the first difference is.
bool same_key(std::string_view a, std::string_view b) {
  unsigned difference = a.size() == b.size() ? 0 : 1;
  for (size_t i = 0; i < a.size(); ++i)
    difference |= static_cast<unsigned char>(a[i]) ^ static_cast<unsigned char>(b[b.empty() ? 0 : i % b.size()]);
  return difference == 0;
}

std::optional<ApiError> check_key(const Service& service, const HttpRequest& request) {
  const std::string& key = service.options.api_key;
  if (key.empty()) return std::nullopt;
  const std::string_view header = request.header("Authorization");
  constexpr std::string_view kBearer = "Bearer ";
  if (header.starts_with(kBearer) && same_key(key, header.substr(kBearer.size()))) return std::nullopt;
  return ApiError{.status = 401, .message = "the API key is missing or wrong", .param = {}, .code = "invalid_api_key"};
}

}  // namespace

std::string Service::make_id(std::string_view prefix) const {
  return fmt::format("{}-{:016x}", prefix, next_id.fetch_add(1));
}

Handler keyed_handler(const ServicePtr& service, Handler handler) {
  return [service, handler = std::move(handler)](const auto& request, const auto& reply) {
    if (const auto error = check_key(*service, *request)) return reply->send(error_response(*error));
    handler(request, reply);
  };
}

Handler json_handler(const ServicePtr& service, JsonBody body) {
  const auto work = [service, body = std::move(body)](const std::shared_ptr<HttpRequest>& request,
                                                      const std::shared_ptr<Reply>& reply) {
    const auto value = parse_json(request->body);
    if (!value) return reply->send(error_response(bad_request(value.error().message)));
    if (!value->is_object()) return reply->send(error_response(bad_request("the body must be a JSON object")));
    const auto done = body(value->get_object(), request, reply);
    if (!done) reply->send(error_response(done.error()));
  };
  return keyed_handler(
      service, [service, work](const std::shared_ptr<HttpRequest>& request, const std::shared_ptr<Reply>& reply) {
        const bool queued = service->tasks->submit([work, request, reply] {
          try {
            work(request, reply);
          } catch (const std::exception& error) {
            log_error("{} failed: {}", request->route, error.what());
            reply->send(error_response({.status = 500, .message = "internal error", .param = {}, .code = {}}));
          }
        });
        if (!queued)
          reply->send(
              error_response({.status = 503, .message = "too many requests are being read", .param = {}, .code = {}}));
      });
}

std::optional<ApiError> check_model(const Service& service, Fields& fields) {
  const auto model = fields.text("model");
  if (fields.error()) return fields.error();
  if (!model || *model == service.options.model_name) return std::nullopt;
  return ApiError{
      .status = 404,
      .message = fmt::format("the model {} does not exist; this server serves {}", *model, service.options.model_name),
      .param = "model",
      .code = "model_not_found"};
}

Router make_router(const ServicePtr& service) {
  Router router([](int status, std::string_view message) {
    return error_response({.status = status, .message = std::string(message), .param = {}, .code = {}});
  });
  add_chat_route(router, service);
  add_completion_route(router, service);
  add_generate_route(router, service);
  add_token_routes(router, service);
  add_admin_routes(router, service);
  return router;
}

}  // namespace perigee
