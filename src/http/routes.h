// Router: from method and path to a handler; answers 404, 405, OPTIONS (CORS preflight) and HEAD by itself.
//
// Built at start-up by api/, then moved into the HttpServer and never changed: route() is const and thread-safe.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "http/message.h"
#include "http/reply.h"

namespace perigee {

/// Runs on an io thread and must not block: heavy work goes to a TaskPool. May answer now or later, from any thread.
/// An exception becomes a 500 with a generic text and is logged.
using Handler = std::function<void(const std::shared_ptr<HttpRequest>&, const std::shared_ptr<Reply>&)>;

class Router {
 public:
  explicit Router(ErrorResponse error_response = default_error_response);

  /// Patterns: "/health", "/v1/models/{id}" (one segment), "/web/{file...}" (the rest, may hold slashes, not empty).
  /// The match with the most literal segments wins. A GET route also serves HEAD (the body is cut off by the server).
  /// Adding the same method and pattern twice, or a malformed pattern, is a programmer's fault.
  void add(std::string_view method, std::string_view pattern, Handler handler);

  /// Finds the route, fills request->route and path_parameters, and runs the handler (or answers itself).
  void route(const std::shared_ptr<HttpRequest>& request, const std::shared_ptr<Reply>& reply) const;

  /// The error answer in the shape chosen at construction.
  HttpResponse error(int status, std::string_view message) const { return error_response_(status, message); }

 private:
  struct Endpoint {
    std::string method;
    Handler handler;
  };
  struct Path {
    std::string pattern;
    std::vector<std::string> segments;
    std::vector<Endpoint> endpoints;
  };
  const Path* find(std::string_view path) const;

  ErrorResponse error_response_;
  std::vector<Path> paths_;
};

}  // namespace perigee
