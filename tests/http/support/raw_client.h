// RawClient: a bare socket for tests that must control every byte on the wire. One thread; waits are bounded.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

#include "http/message.h"

namespace perigee {

class RawClient {
 public:
  /// Connects to 127.0.0.1; `receive_buffer` > 0 fixes SO_RCVBUF, for slow readers.
  explicit RawClient(uint16_t port, int receive_buffer = 0);
  ~RawClient();
  RawClient(RawClient&& other) noexcept;
  RawClient& operator=(RawClient&&) = delete;

  /// False when the peer has reset the connection.
  bool send(std::string_view bytes);
  /// Reads until `mark` was seen; returns everything up to and including it, or what came before the end or timeout.
  std::string read_until(std::string_view mark, std::chrono::milliseconds timeout = std::chrono::seconds(10));
  /// Reads until the peer closes.
  std::string read_all(std::chrono::milliseconds timeout = std::chrono::seconds(10));
  /// One answer with Content-Length (or none, or `head_only`); status 0 when it did not come whole.
  HttpResponse read_response(bool head_only = false, std::chrono::milliseconds timeout = std::chrono::seconds(10));
  /// Waits for the peer's close or reset; anything else read meanwhile is dropped.
  bool wait_closed(std::chrono::milliseconds timeout = std::chrono::seconds(10));
  void shutdown_write();
  /// `reset`: with an RST in place of a FIN.
  void close(bool reset = false);
  int descriptor() const { return descriptor_; }

 private:
  /// Appends what arrives to buffer_; false at the end of the connection or the deadline.
  bool fill(std::chrono::steady_clock::time_point deadline);
  int descriptor_ = -1;
  bool ended_ = false;
  std::string buffer_;
};

}  // namespace perigee
