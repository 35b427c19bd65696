// ApiError: what went wrong with a request, and the one place that writes the error object.
#pragma once

#include <string>
#include <string_view>

#include "base/json.h"
#include "http/message.h"

namespace perigee {

/// An HTTP status with OpenAI's error fields. Everything below 500 is the caller's fault.
struct ApiError {
  int status = 400;
  std::string message;
  std::string param;  ///< the field at fault; empty: null in the object
  std::string code;   ///< machine-readable; empty: null
};

/// A 400 that names the field.
ApiError bad_request(std::string message, std::string param = {});

/// {"error": {"message", "type", "param", "code"}}; type follows from the status.
json::object error_object(const ApiError& error);

/// The whole answer; 503 carries Retry-After.
HttpResponse error_response(const ApiError& error);

}  // namespace perigee
