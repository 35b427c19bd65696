// TestServer: an HttpServer with the routes that the tests share, and a log of lost clients.
#pragma once

#include <chrono>
#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "http/server.h"

namespace perigee {

/// Routes: GET /hello, POST /echo, GET /query (method, path, query, remote address), GET /throw, GET /drop,
/// GET /hang (never answers), GET /open (a stream that stays open, see streams()), GET /later (answers after 50 ms from
/// another thread), GET /count/{n} (n events "0".."n-1" from another thread), GET /big/{n} (n bytes).
class TestServer {
 public:
  explicit TestServer(ServerLimits limits = {}, int io_threads = 2);
  ~TestServer();

  uint16_t port() const { return server_->port(); }
  HttpServer& http() { return *server_; }

  /// Waits until `count` callbacks with `reason` have come.
  bool wait_lost(Disconnect reason, size_t count, std::chrono::milliseconds timeout = std::chrono::seconds(10));
  size_t lost(Disconnect reason);
  /// Waits until `count` requests hang or stream.
  bool wait_open(size_t count, std::chrono::milliseconds timeout = std::chrono::seconds(10));
  std::vector<std::shared_ptr<EventStream>> streams();
  std::vector<std::shared_ptr<Reply>> hanging();
  std::vector<AccessRecord> finished();
  /// Forgets the replies and streams it holds.
  void forget();

 private:
  void add_plain_routes(Router& router);
  void add_late_routes(Router& router);
  void watch(const std::shared_ptr<Reply>& reply);

  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<Disconnect, size_t> lost_;
  std::vector<std::shared_ptr<EventStream>> streams_;
  std::vector<std::shared_ptr<Reply>> hanging_;
  std::vector<AccessRecord> finished_;
  std::vector<std::thread> threads_;
  std::unique_ptr<HttpServer> server_;
};

/// Polls until `ready` holds; false after `timeout`.
template <class Ready>
bool eventually(const Ready& ready, std::chrono::milliseconds timeout = std::chrono::seconds(10)) {
  const auto deadline = std::chrono::steady_clock::now() + timeout;
  while (!ready()) {
    if (std::chrono::steady_clock::now() > deadline) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  return true;
}

}  // namespace perigee
