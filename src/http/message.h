// HttpRequest and HttpResponse: one request and one whole answer as plain values.
//
// Filled by the server (or built by a caller of the client), read by handlers. No sockets, no threads; a request is
// immutable once its handler sees it, so it may be read from any thread.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace perigee {

/// Header lines in the order of the wire; names keep their spelling and compare case-insensitively.
using Headers = std::vector<std::pair<std::string, std::string>>;

/// The value of the first header `name`, or nullptr.
const std::string* find_header(const Headers& headers, std::string_view name);

/// ASCII case-insensitive equality, as header names and tokens need it.
bool equals_ignoring_case(std::string_view a, std::string_view b);

struct HttpRequest {
  std::string method;          ///< upper case as sent: GET, POST, ...
  std::string target;          ///< as sent: "/v1/models/a%2Fb?x=1"
  std::string path;            ///< percent-decoded, without the query: "/v1/models/a/b"
  std::string query;           ///< raw, without the '?'
  std::string route;           ///< the pattern that matched ("/v1/models/{id}"), for logs and metric labels
  Headers headers;             ///< trailers of a chunked body are dropped
  std::string body;            ///< whole, with any chunking removed
  std::string remote_address;  ///< the peer's IP address, without its port
  std::vector<std::pair<std::string, std::string>> path_parameters;  ///< percent-decoded

  /// The value of the first header `name` (any case), or empty.
  std::string_view header(std::string_view name) const;
  /// The value that stood for {name} in the route's pattern, or empty.
  std::string_view path_parameter(std::string_view name) const;
  /// The percent-decoded value of the first `name=` in the query; nothing when absent.
  std::optional<std::string> query_parameter(std::string_view name) const;
};

struct HttpResponse {
  int status = 200;
  std::string content_type = "application/json";
  std::string body;
  Headers headers;  ///< further lines; Content-Length, Connection, Date and CORS are the server's business
};

/// Builds the answer for an error that the HTTP layer itself finds (400, 404, 405, 408, 413, 417, 431, 500, 503).
/// Called on io threads, must be thread-safe and must not throw.
using ErrorResponse = std::function<HttpResponse(int status, std::string_view message)>;

/// {"error": {"message", "type", "code"}}: what is used when api/ installs nothing else.
HttpResponse default_error_response(int status, std::string_view message);

/// "Not Found" for 404; "Unknown" for codes outside the registry.
std::string_view reason_phrase(int status);

/// Decodes %XX ('+' stays a plus sign unless `plus_is_space`); nothing when an escape is malformed.
std::optional<std::string> percent_decode(std::string_view text, bool plus_is_space = false);

}  // namespace perigee
