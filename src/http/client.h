// HttpClient: a small blocking HTTP/1.1 client for tests, tools and the bench. One connection, kept alive and reopened
// when the server closed it between requests. Not thread-safe; one object per thread.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "base/result.h"
#include "http/message.h"
#include "http/sse.h"

namespace perigee {

class HttpClient {
 public:
  /// `timeout` is the longest wait for the next byte in either direction. Connects at the first request.
  HttpClient(std::string host, uint16_t port, Duration timeout = std::chrono::seconds(30));
  ~HttpClient();
  HttpClient(HttpClient&&) noexcept;
  HttpClient& operator=(HttpClient&&) noexcept;

  /// Any status is a value; an Error means no whole answer came. Only a request without any answered byte on a reused
  /// connection is sent again.
  Result<HttpResponse> request(std::string_view method, std::string_view target, std::string_view body = {},
                               const Headers& headers = {});
  Result<HttpResponse> get(std::string_view target) { return request("GET", target); }
  Result<HttpResponse> post_json(std::string_view target, std::string_view body);

  /// Like request(), but an answer of type text/event-stream is given to `on_event` event by event as it arrives (its
  /// body stays empty). `on_event` returns false to stop early, which closes the connection.
  Result<HttpResponse> stream(std::string_view method, std::string_view target, std::string_view body,
                              const Headers& headers, const std::function<bool(const SseEvent&)>& on_event);

 private:
  class Connection;
  std::string host_;
  uint16_t port_;
  Duration timeout_;
  std::unique_ptr<Connection> connection_;
};

}  // namespace perigee
