// ServerState: what all connections of one server share. Private to http/. Held in shared_ptrs, because requests and
// replies in a handler's hands may outlive the HttpServer.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <utility>

#include "http/routes.h"
#include "http/server.h"

namespace perigee {

struct ServerState {
  ServerState(ServerOptions server_options, Router server_router)
      : options(std::move(server_options)), router(std::move(server_router)) {}

  const ServerOptions options;
  const Router router;
  std::atomic<bool> draining{false};
  std::atomic<bool> stopping{false};
  std::atomic<size_t> connections{0};
  std::atomic<size_t> body_bytes{0};
  std::atomic<uint64_t> accepted{0};
  std::atomic<uint64_t> refused{0};
  std::atomic<uint64_t> lost_clients{0};

  void request_started() {
    const std::lock_guard lock(mutex);
    ++requests;
  }
  void request_ended() {
    const std::lock_guard lock(mutex);
    if (--requests == 0) idle.notify_all();
  }

  std::mutex mutex;
  std::condition_variable idle;  ///< notified when `requests` falls to 0
  size_t requests = 0;           ///< guarded by mutex
};

}  // namespace perigee
