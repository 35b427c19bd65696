#include "api/errors.h"

namespace perigee {
namespace {

std::string_view error_type(int status) {
  switch (status) {
    case 401:
      return "authentication_error";
    case 404:
      return "not_found_error";
    case 503:
      return "overloaded_error";
    default:
      return status >= 500 ? "server_error" : "invalid_request_error";
  }
}

json::value or_null(const std::string& text) {
  return text.empty() ? json::value(nullptr) : json::value(text);
}

}  // namespace

ApiError bad_request(std::string message, std::string param) {
  return {.status = 400, .message = std::move(message), .param = std::move(param), .code = {}};
}

json::object error_object(const ApiError& error) {
  return {{"error", json::object{{"message", error.message},
                                 {"type", error_type(error.status)},
                                 {"param", or_null(error.param)},
                                 {"code", or_null(error.code)}}}};
}

HttpResponse error_response(const ApiError& error) {
  HttpResponse response{.status = error.status, .body = json_dump(error_object(error))};
  if (error.status == 503) response.headers.emplace_back("Retry-After", "1");
  return response;
}

}  // namespace perigee
