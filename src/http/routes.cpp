// Matching by segments: a path has few of them and a server few routes, so a linear scan is simple and quick enough.
#include "http/routes.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace perigee {
namespace {

/// "/a/b/" -> {"a", "b", ""}: a trailing slash is a segment of its own, so "/a" and "/a/" differ.
std::vector<std::string> split(std::string_view path) {
  std::vector<std::string> segments;
  while (!path.empty()) {
    path.remove_prefix(1);
    const size_t end = std::min(path.find('/'), path.size());
    segments.emplace_back(path.substr(0, end));
    path.remove_prefix(end);
  }
  return segments;
}

bool is_parameter(std::string_view segment) {
  return segment.starts_with('{') && segment.ends_with('}');
}
bool is_rest(std::string_view segment) {
  return is_parameter(segment) && segment.ends_with("...}");
}

/// The number of literal segments when `pattern` matches, else -1. Fills `parameters` when it is given.
int match(const std::vector<std::string>& pattern, const std::vector<std::string>& path,
          std::vector<std::pair<std::string, std::string>>* parameters) {
  const bool rest = !pattern.empty() && is_rest(pattern.back());
  if (rest ? path.size() < pattern.size() : path.size() != pattern.size()) return -1;
  int literals = 0;
  for (size_t i = 0; i < pattern.size(); ++i) {
    const std::string& segment = pattern[i];
    if (!is_parameter(segment)) {
      if (segment != path[i]) return -1;
      ++literals;
      continue;
    }
    std::string value = path[i];
    const bool last = rest && i + 1 == pattern.size();
    for (size_t j = i + 1; last && j < path.size(); ++j) value += "/" + path[j];
    if (value.empty()) return -1;
    if (parameters) parameters->emplace_back(segment.substr(1, segment.size() - (last ? 5 : 2)), std::move(value));
  }
  return literals;
}

}  // namespace

Router::Router(ErrorResponse error_response) : error_response_(std::move(error_response)) {
  PERIGEE_CHECK(error_response_ != nullptr, "a Router needs an error response");
}

void Router::add(std::string_view method, std::string_view pattern, Handler handler) {
  PERIGEE_CHECK(pattern.starts_with('/'), "route '{}' must begin with a slash", pattern);
  const std::vector<std::string> segments = split(pattern);
  for (size_t i = 0; i < segments.size(); ++i) {
    PERIGEE_CHECK(!is_rest(segments[i]) || i + 1 == segments.size(), "'{}' may only end with a rest", pattern);
  }
  auto path = std::find_if(paths_.begin(), paths_.end(), [&](const Path& p) { return p.pattern == pattern; });
  if (path == paths_.end()) {
    paths_.push_back({std::string(pattern), segments, {}});
    path = std::prev(paths_.end());
  }
  for (const Endpoint& endpoint : path->endpoints) {
    PERIGEE_CHECK(endpoint.method != method, "route {} {} is added twice", method, pattern);
  }
  path->endpoints.push_back({std::string(method), std::move(handler)});
}

const Router::Path* Router::find(std::string_view path) const {
  const std::vector<std::string> segments = split(path);
  const Path* best = nullptr;
  int best_literals = -1;
  for (const Path& candidate : paths_) {
    const int literals = match(candidate.segments, segments, nullptr);
    if (literals > best_literals) {
      best = &candidate;
      best_literals = literals;
    }
  }
  return best;
}

void Router::route(const std::shared_ptr<HttpRequest>& request, const std::shared_ptr<Reply>& reply) const {
  if (request->path == "*") {
    HttpResponse response;
    response.status = 204;
    reply->send(std::move(response));
    return;
  }
  const Path* path = find(request->path);
  if (!path) {
    reply->send(error(404, fmt::format("There is nothing at {} {}.", request->method, request->path)));
    return;
  }
  request->route = path->pattern;
  const auto handler_of = [path](std::string_view method) -> const Handler* {
    for (const Endpoint& endpoint : path->endpoints) {
      if (endpoint.method == method) return &endpoint.handler;
    }
    return nullptr;
  };
  const Handler* handler = handler_of(request->method);
  if (!handler && request->method == "HEAD") handler = handler_of("GET");
  if (handler) {
    match(path->segments, split(request->path), &request->path_parameters);
    (*handler)(request, reply);
    return;
  }
  std::string allowed = "OPTIONS";
  for (const Endpoint& endpoint : path->endpoints) allowed += ", " + endpoint.method;
  if (handler_of("GET") && !handler_of("HEAD")) allowed += ", HEAD";
  HttpResponse response;
  if (request->method == "OPTIONS") {
    response.status = 204;
    response.headers.emplace_back("Access-Control-Allow-Methods", allowed);
    const std::string_view wanted = request->header("Access-Control-Request-Headers");
    response.headers.emplace_back("Access-Control-Allow-Headers", wanted.empty() ? "*" : wanted);
    response.headers.emplace_back("Access-Control-Max-Age", "86400");
  } else {
    response =
        error(405, fmt::format("{} is not a method of {}; it allows {}.", request->method, request->path, allowed));
  }
  response.headers.emplace_back("Allow", allowed);
  reply->send(std::move(response));
}

}  // namespace perigee
