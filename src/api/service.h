// Service: what every endpoint needs, made once by `perigee serve`. Immutable but for the counters; shared by all
// threads.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "api/errors.h"
#include "api/sampling.h"
#include "api/service_metrics.h"
#include "base/json.h"
#include "base/task_pool.h"
#include "engine/engine.h"
#include "http/routes.h"
#include "text/chat_encoder.h"
#include "text/tokenizer.h"

namespace perigee {

struct ServiceOptions {
  std::string model_name;  ///< in /v1/models and accepted as "model"
  std::string model_path;
  std::string api_key;         ///< empty: open
  int64_t context_length = 0;  ///< prompt + output
  int64_t vocab = 0;
  std::vector<int32_t> eos_ids;
  bool reasoning_parser = true;  ///< kimi_k3; false: none
  bool tool_parser = true;
  int64_t stream_interval = 1;  ///< tokens per event
  ApiLimits limits;
  json::object server_info;  ///< static part of /server_info
};

struct Service {
  ServiceOptions options;
  std::shared_ptr<Engine> engine;
  std::shared_ptr<const Tokenizer> tokenizer;
  std::shared_ptr<const ChatEncoder> encoder;
  std::shared_ptr<TaskPool> tasks;
  std::shared_ptr<ServiceMetrics> metrics;
  std::atomic<bool> ready{true};  ///< false while draining: /health answers 503
  int64_t started_unix = 0;
  mutable std::atomic<uint64_t> next_id{1};

  /// "chatcmpl-000000000000002a": unique in this process.
  std::string make_id(std::string_view prefix) const;
};

using ServicePtr = std::shared_ptr<Service>;

/// All routes of the server.
Router make_router(const ServicePtr& service);

// What make_router puts together, one function per file.
void add_chat_route(Router& router, const ServicePtr& service);
void add_completion_route(Router& router, const ServicePtr& service);
void add_generate_route(Router& router, const ServicePtr& service);
void add_token_routes(Router& router, const ServicePtr& service);
void add_admin_routes(Router& router, const ServicePtr& service);

/// Checks the key, parses the body on the task pool and calls `body` there with its object. What `body` returns as an
/// error is sent; a body that is no object is a 400.
using JsonBody = std::function<Result<void, ApiError>(const json::object& body, const std::shared_ptr<HttpRequest>&,
                                                      const std::shared_ptr<Reply>&)>;
Handler json_handler(const ServicePtr& service, JsonBody body);
/// The same check for requests without a body.
Handler keyed_handler(const ServicePtr& service, Handler handler);

/// A 404 unless "model" is absent or the served name.
std::optional<ApiError> check_model(const Service& service, Fields& fields);

}  // namespace perigee
