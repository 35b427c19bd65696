// HttpServer: HTTP/1.1 with keep-alive, pipelining and server-sent events over a few io threads.
//
// Owned by main. Each connection lives on one io thread from accept to close; there is no thread per connection.
// Every buffer, queue and wait has a limit in ServerLimits. TLS is left to a proxy in front.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "base/clock.h"
#include "http/routes.h"

namespace perigee {

struct ServerLimits {
  size_t header_bytes = 16 << 10;                           ///< request line and headers; more: 431
  size_t body_bytes = 64 << 20;                             ///< one body; more: 413
  size_t total_body_bytes = size_t{1} << 30;                ///< bodies of all live requests together; more: 503
  size_t connections = 4096;                                ///< more: 503 and close
  size_t stream_queue_bytes = 1 << 20;                      ///< queued on one EventStream; more: the client is dropped
  size_t pipelined_bytes = 64 << 10;                        ///< read ahead while a request is being answered
  Duration header_timeout = std::chrono::seconds(10);       ///< first byte to end of head: 408; no byte at all: close
  Duration body_timeout = std::chrono::seconds(120);        ///< end of head to end of body: 408
  Duration idle_timeout = std::chrono::seconds(75);         ///< between requests: close
  Duration slow_client_timeout = std::chrono::seconds(30);  ///< bytes queued and none taken: the client is dropped
  Duration heartbeat_interval = std::chrono::seconds(15);   ///< silence on a stream before a ": ping" comment
};

/// What is told about a request when its last byte was written or its client was lost.
struct AccessRecord {
  std::string method;
  std::string route;  ///< the pattern, or empty when none matched
  int status = 0;     ///< 0 when the client went before any answer
  size_t bytes_sent = 0;
  Duration duration{};  ///< from the end of the request to the end of the answer
  bool complete = false;
};

struct ServerOptions {
  std::string host = "127.0.0.1";  ///< an IPv4 or IPv6 address or a name; "::" takes IPv4 too, "" means "0.0.0.0"
  uint16_t port = 0;               ///< 0: any free port
  int io_threads = 1;              ///< one is enough for about 5,000 streams
  std::string cors_origin = "*";   ///< Access-Control-Allow-Origin of every answer; empty: no CORS headers
  ServerLimits limits{};
  std::function<void(const AccessRecord&)> on_finished{};  ///< on an io thread; must not block; may be empty
};

struct ServerStats {
  size_t connections = 0;     ///< open now
  size_t requests = 0;        ///< being answered now
  size_t body_bytes = 0;      ///< request bodies held now, those in handlers' hands included
  uint64_t accepted = 0;      ///< since the start, refused ones included
  uint64_t refused = 0;       ///< over the connection limit
  uint64_t lost_clients = 0;  ///< gone or dropped before their answer was complete
};

class HttpServer {
 public:
  /// Listens and serves at once. Throws std::runtime_error with a full sentence when the address cannot be bound.
  HttpServer(ServerOptions options, Router router);
  /// stop().
  ~HttpServer();
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  uint16_t port() const;
  ServerStats stats() const;

  /// Drain: closes the listener and idle connections. Requests that run, or arrive on connections that are busy or
  /// were opened just before, are answered with Connection: close. Returns at once; any thread.
  void stop_accepting();
  /// Waits until no request is being answered (all their bytes handed to the kernel); false after `timeout`.
  bool wait_idle(Duration timeout);
  /// Closes everything now (on_disconnect with server_stopped) and joins the io threads. Not from an io thread.
  /// Replies may outlive the server; they then do nothing.
  void stop();

 private:
  class Loops;
  std::unique_ptr<Loops> loops_;
};

}  // namespace perigee
