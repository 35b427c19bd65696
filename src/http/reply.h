// Reply and EventStream: the answer to one request, given at once or later, from any thread.
//
// The server makes a Reply for each request and hands it to the handler in a shared_ptr. Both are abstract so that
// api/ can be tested without sockets. All calls are thread-safe and none blocks.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string_view>

#include "http/message.h"

namespace perigee {

/// Why a client was lost before its answer was complete.
enum class Disconnect {
  client_closed,   ///< the peer closed or reset the connection (a half-close counts as closed)
  slow_client,     ///< its queue overflowed, or it took no byte for ServerLimits::slow_client_timeout
  server_stopped,  ///< HttpServer::stop()
};

std::string_view disconnect_name(Disconnect reason);

/// One text/event-stream answer. Destroying the last handle without close() cuts the connection, so that the client
/// sees a broken stream and not a complete one.
class EventStream {
 public:
  virtual ~EventStream() = default;

  /// Queues one event "data: ...\n\n" (data with line breaks becomes several data lines). False, and nothing is queued,
  /// when the client is gone, the stream is closed, or the queue limit would be exceeded; the last drops the client.
  virtual bool send(std::string_view data) = 0;
  /// The same with an "event: name" line before the data. `event` must not contain line breaks.
  virtual bool send_named(std::string_view event, std::string_view data) = 0;
  /// Queues a comment line ": text". The server sends ": ping" by itself when nothing else was sent for a while.
  virtual bool comment(std::string_view text) = 0;
  /// Ends the answer; what is queued is still delivered. Later calls do nothing.
  virtual void close() = 0;

  /// Bytes queued here and not yet taken by the kernel: what a producer looks at to slow down.
  virtual size_t queued_bytes() const = 0;
  /// False once the client is gone or close() was called.
  virtual bool is_open() const = 0;
};

/// The one answer to one request: exactly one call of send() or start_stream() (a second is a programmer's fault).
/// Calls after the client has gone do nothing. Destroying the last handle unanswered sends a 500.
class Reply {
 public:
  virtual ~Reply() = default;

  virtual void send(HttpResponse response) = 0;

  /// Sends the head now and returns the stream; never null. For a client already gone the stream is simply not open.
  virtual std::shared_ptr<EventStream> start_stream(int status = 200, Headers headers = {}) = 0;

  /// `callback` runs at most once, when the client is lost before send() or close() was called, also while nothing is
  /// being written; on an io thread, so it must not block. If the client is already gone it runs at once, here.
  /// A second registration replaces the first. The callback is released when the answer ends, so it may hold this
  /// Reply.
  virtual void on_disconnect(std::function<void(Disconnect)> callback) = 0;
};

}  // namespace perigee
