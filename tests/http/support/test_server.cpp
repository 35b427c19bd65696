// The routes of TestServer.
#include "http/support/test_server.h"

#include <algorithm>
#include <stdexcept>
#include <utility>

namespace perigee {

TestServer::TestServer(ServerLimits limits, int io_threads) {
  Router router;
  add_plain_routes(router);
  add_late_routes(router);
  ServerOptions options;
  options.io_threads = io_threads;
  options.limits = limits;
  options.on_finished = [this](const AccessRecord& record) {
    const std::lock_guard lock(mutex_);
    finished_.push_back(record);
  };
  server_ = std::make_unique<HttpServer>(std::move(options), std::move(router));
}

TestServer::~TestServer() {
  server_->stop();
  for (std::thread& thread : threads_) thread.join();
}

void TestServer::add_plain_routes(Router& router) {
  router.add("GET", "/hello", [](const auto&, const auto& reply) { reply->send({200, "text/plain", "hello", {}}); });
  router.add("POST", "/echo", [](const auto& request, const auto& reply) {
    reply->send({200, std::string(request->header("Content-Type")), request->body, {}});
  });
  router.add("GET", "/query", [](const auto& request, const auto& reply) {
    reply->send({200,
                 "text/plain",
                 request->method + " " + request->path + " " + request->query + " " + request->remote_address,
                 {}});
  });
  router.add("GET", "/inject", [](const auto& request, const auto& reply) {
    reply->send({200, "text/plain", "x", {{"X-Echo", *percent_decode(request->query)}, {"Content-Length", "99"}}});
  });
  router.add("GET", "/throw", [](const auto&, const auto&) { throw std::runtime_error("secret detail"); });
  router.add("GET", "/drop", [](const auto&, const auto&) {});
  router.add("GET", "/big/{n}", [](const auto& request, const auto& reply) {
    const size_t size = std::stoul(std::string(request->path_parameter("n")));
    reply->send({200, "text/plain", std::string(size, 'b'), {}});
  });
}

void TestServer::add_late_routes(Router& router) {
  router.add("GET", "/hang", [this](const auto&, const auto& reply) {
    watch(reply);
    const std::lock_guard lock(mutex_);
    hanging_.push_back(reply);
    changed_.notify_all();
  });
  router.add("GET", "/open", [this](const auto&, const auto& reply) {
    watch(reply);
    const std::lock_guard lock(mutex_);
    streams_.push_back(reply->start_stream());
    changed_.notify_all();
  });
  router.add("GET", "/later", [this](const auto&, const auto& reply) {
    const std::lock_guard lock(mutex_);
    threads_.emplace_back([reply] {
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
      reply->send({200, "text/plain", "later", {}});
    });
  });
  router.add("GET", "/count/{n}", [this](const auto& request, const auto& reply) {
    const int count = std::stoi(std::string(request->path_parameter("n")));
    const auto stream = reply->start_stream();
    const std::lock_guard lock(mutex_);
    threads_.emplace_back([stream, count] {
      for (int i = 0; i < count; ++i) stream->send(std::to_string(i));
      stream->close();
    });
  });
  router.add("GET", "/throw-in-stream", [](const auto&, const auto& reply) {
    const auto stream = reply->start_stream();
    stream->send("first");
    throw std::runtime_error("secret detail");
  });
}

void TestServer::watch(const std::shared_ptr<Reply>& reply) {
  reply->on_disconnect([this](Disconnect reason) {
    const std::lock_guard lock(mutex_);
    ++lost_[reason];
    changed_.notify_all();
  });
}

bool TestServer::wait_lost(Disconnect reason, size_t count, std::chrono::milliseconds timeout) {
  std::unique_lock lock(mutex_);
  return changed_.wait_for(lock, timeout, [&] { return lost_[reason] >= count; });
}

size_t TestServer::lost(Disconnect reason) {
  const std::lock_guard lock(mutex_);
  return lost_[reason];
}

bool TestServer::wait_open(size_t count, std::chrono::milliseconds timeout) {
  std::unique_lock lock(mutex_);
  return changed_.wait_for(lock, timeout, [&] { return streams_.size() + hanging_.size() >= count; });
}

std::vector<std::shared_ptr<EventStream>> TestServer::streams() {
  const std::lock_guard lock(mutex_);
  return streams_;
}

std::vector<std::shared_ptr<Reply>> TestServer::hanging() {
  const std::lock_guard lock(mutex_);
  return hanging_;
}

std::vector<AccessRecord> TestServer::finished() {
  const std::lock_guard lock(mutex_);
  return finished_;
}

void TestServer::forget() {
  std::vector<std::shared_ptr<EventStream>> streams;
  std::vector<std::shared_ptr<Reply>> hanging;
  const std::lock_guard lock(mutex_);
  streams.swap(streams_);
  hanging.swap(hanging_);
}

}  // namespace perigee
