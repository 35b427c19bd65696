// Splitting and decoding of request targets.
#include "http/target.h"

#include <algorithm>
#include <string_view>

namespace perigee {

Result<void> parse_target(HttpRequest& request) {
  std::string_view target = request.target;
  if (target == "*" && request.method == "OPTIONS") {
    request.path = "*";
    return {};
  }
  for (const std::string_view scheme : {"http://", "https://"}) {
    if (!target.starts_with(scheme)) continue;
    target.remove_prefix(std::min(target.find_first_of("/?", scheme.size()), target.size()));
    if (!target.starts_with('/')) target = "/";
    break;
  }
  if (!target.starts_with('/')) return Error{"The request's target must be a path that begins with a slash."};
  target = target.substr(0, target.find('#'));
  const size_t question = std::min(target.find('?'), target.size());
  request.query = target.substr(std::min(question + 1, target.size()));
  auto path = percent_decode(target.substr(0, question));
  if (!path) return Error{"The request's path holds a malformed percent escape."};
  if (path->find('\0') != std::string::npos) return Error{"The request's path holds a zero byte."};
  request.path = std::move(*path);
  return {};
}

}  // namespace perigee
