// The request target (RFC 9112, section 3.2) taken apart. Private to http/.
#pragma once

#include "base/result.h"
#include "http/message.h"

namespace perigee {

/// Fills request.path and request.query from request.target: origin form ("/a?b"), absolute form ("http://host/a?b")
/// or, for OPTIONS only, "*". The message of an error is fit for a 400.
Result<void> parse_target(HttpRequest& request);

}  // namespace perigee
