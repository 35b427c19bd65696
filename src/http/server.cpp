// The listener and the io loops. Each io loop is one thread with its own io_context and its own connections, so that
// connections need no locks; the first loop also accepts and deals sockets out in turn.
#include "http/server.h"

#include <fmt/format.h>
#include <pthread.h>

#include <algorithm>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ip/v6_only.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <csignal>
#include <stdexcept>
#include <thread>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/log.h"
#include "http/connection.h"
#include "http/server_state.h"

namespace perigee {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;

constexpr auto kTick = std::chrono::milliseconds(50);
constexpr auto kAcceptPause = std::chrono::milliseconds(100);
/// Connections over the limit that are told so; beyond these, sockets are closed without a word.
constexpr size_t kPoliteRefusals = 128;

/// One io thread and the connections that live on it.
class IoLoop {
 public:
  explicit IoLoop(std::shared_ptr<ServerState> state)
      : state_(std::move(state)), context_(1), guard_(asio::make_work_guard(context_)), timer_(context_) {}
  IoLoop(const IoLoop&) = delete;
  IoLoop& operator=(const IoLoop&) = delete;

  asio::io_context& context() { return context_; }

  void run() {
    thread_ = std::thread([this] {
      // Signals belong to the main thread.
      sigset_t all;
      sigfillset(&all);
      pthread_sigmask(SIG_BLOCK, &all, nullptr);
      context_.run();
    });
  }

  void join() {
    if (thread_.joinable()) thread_.join();
  }
  bool is_current() const { return thread_.get_id() == std::this_thread::get_id(); }

  /// From any thread: the socket was made for this loop's context.
  void adopt(tcp::socket socket) {
    asio::post(context_, [this, socket = std::move(socket)]() mutable { begin(std::move(socket)); });
  }
  void drain() {
    asio::post(context_, [this] { for_each([](Connection& connection) { connection.drain(); }); });
  }
  void close_all() {
    asio::post(context_, [this] {
      for_each([](Connection& connection) { connection.close(Disconnect::server_stopped); });
      timer_.cancel();
      guard_.reset();
    });
  }

 private:
  void begin(tcp::socket socket) {
    if (state_->stopping) return;
    const size_t open = state_->connections;
    const size_t limit = state_->options.limits.connections;
    if (open >= limit + kPoliteRefusals) {
      ++state_->refused;
      return;
    }
    const auto connection = std::make_shared<Connection>(std::move(socket), state_, connections_);
    connections_.insert(connection);
    open < limit ? connection->start() : connection->refuse();
    arm();
  }

  /// The timer runs only while there is something to watch.
  void arm() {
    if (armed_ || connections_.empty() || state_->stopping) return;
    armed_ = true;
    timer_.expires_after(kTick);
    timer_.async_wait([this](const boost::system::error_code& error) {
      armed_ = false;
      if (error) return;
      const TimePoint now = SteadyClock().now();
      for_each([now](Connection& connection) { connection.tick(now); });
      arm();
    });
  }

  /// `visit` may close the connection it is given, which removes it from the set.
  template <class Visit>
  void for_each(const Visit& visit) {
    for (auto it = connections_.begin(); it != connections_.end();) {
      const std::shared_ptr<Connection> connection = *it++;
      visit(*connection);
    }
  }

  const std::shared_ptr<ServerState> state_;
  ConnectionSet connections_;
  asio::io_context context_;
  asio::executor_work_guard<asio::io_context::executor_type> guard_;
  asio::steady_timer timer_;
  bool armed_ = false;
  std::thread thread_;
};

std::string bare_host(const std::string& host) {
  if (host.empty()) return "0.0.0.0";
  if (host.size() > 2 && host.front() == '[' && host.back() == ']') return host.substr(1, host.size() - 2);
  return host;
}

tcp::acceptor listen(asio::io_context& context, const ServerOptions& options) {
  const auto refuse = [&options](const boost::system::error_code& error) {
    throw std::runtime_error(
        fmt::format("Cannot listen on {} port {}: {}. Choose another address with --host or another port with --port.",
                    options.host.empty() ? "0.0.0.0" : options.host, options.port, error.message()));
  };
  boost::system::error_code error;
  tcp::resolver resolver(context);
  const auto found = resolver.resolve(bare_host(options.host), std::to_string(options.port),
                                      tcp::resolver::passive | tcp::resolver::numeric_service, error);
  if (error) refuse(error);
  const tcp::endpoint endpoint = found.begin()->endpoint();
  tcp::acceptor acceptor(context);
  acceptor.open(endpoint.protocol(), error);
  if (error) refuse(error);
  boost::system::error_code ignored;
  acceptor.set_option(tcp::acceptor::reuse_address(true), ignored);
  if (endpoint.address().is_v6()) acceptor.set_option(asio::ip::v6_only(false), ignored);
  acceptor.bind(endpoint, error);
  if (!error) acceptor.listen(4096, error);
  if (error) refuse(error);
  return acceptor;
}

}  // namespace

class HttpServer::Loops {
 public:
  Loops(ServerOptions options, Router router)
      : state_(std::make_shared<ServerState>(std::move(options), std::move(router))),
        loops_(make_loops(state_)),
        acceptor_(listen(loops_[0]->context(), state_->options)),
        accept_timer_(loops_[0]->context()),
        port_(acceptor_.local_endpoint().port()) {
    asio::post(loops_[0]->context(), [this] { accept(); });
    for (const auto& loop : loops_) loop->run();
  }

  uint16_t port() const { return port_; }
  ServerState& state() { return *state_; }

  void stop_accepting() {
    state_->draining = true;
    asio::post(loops_[0]->context(), [this] { close_acceptor(); });
    for (const auto& loop : loops_) loop->drain();
  }

  void stop() {
    const std::lock_guard lock(stop_mutex_);
    for (const auto& loop : loops_) PERIGEE_CHECK(!loop->is_current(), "HttpServer::stop() on an io thread");
    if (state_->stopping.exchange(true)) return;
    asio::post(loops_[0]->context(), [this] { close_acceptor(); });
    for (const auto& loop : loops_) loop->close_all();
    for (const auto& loop : loops_) loop->join();
  }

 private:
  static std::vector<std::unique_ptr<IoLoop>> make_loops(const std::shared_ptr<ServerState>& state) {
    std::vector<std::unique_ptr<IoLoop>> loops;
    for (int i = 0; i < std::max(1, state->options.io_threads); ++i) loops.push_back(std::make_unique<IoLoop>(state));
    return loops;
  }

  void close_acceptor() {
    boost::system::error_code ignored;
    acceptor_.close(ignored);
    accept_timer_.cancel();
  }

  void accept() {
    if (!acceptor_.is_open()) return;
    IoLoop& target = *loops_[next_loop_++ % loops_.size()];
    acceptor_.async_accept(target.context(),
                           [this, &target](const boost::system::error_code& error, tcp::socket socket) {
                             if (!acceptor_.is_open()) return;
                             if (!error) {
                               ++state_->accepted;
                               target.adopt(std::move(socket));
                               accept();
                               return;
                             }
                             // Mostly "too many open files": trying again at once would only burn the CPU.
                             log_warning("cannot accept a connection: {}", error.message());
                             accept_timer_.expires_after(kAcceptPause);
                             accept_timer_.async_wait([this](const boost::system::error_code& cancelled) {
                               if (!cancelled) accept();
                             });
                           });
  }

  const std::shared_ptr<ServerState> state_;
  std::vector<std::unique_ptr<IoLoop>> loops_;
  tcp::acceptor acceptor_;
  asio::steady_timer accept_timer_;
  const uint16_t port_;
  size_t next_loop_ = 0;
  std::mutex stop_mutex_;
};

HttpServer::HttpServer(ServerOptions options, Router router)
    : loops_(std::make_unique<Loops>(std::move(options), std::move(router))) {}

HttpServer::~HttpServer() {
  stop();
}

uint16_t HttpServer::port() const {
  return loops_->port();
}

ServerStats HttpServer::stats() const {
  ServerState& state = loops_->state();
  ServerStats stats;
  stats.connections = state.connections;
  stats.body_bytes = state.body_bytes;
  stats.accepted = state.accepted;
  stats.refused = state.refused;
  stats.lost_clients = state.lost_clients;
  const std::lock_guard lock(state.mutex);
  stats.requests = state.requests;
  return stats;
}

void HttpServer::stop_accepting() {
  loops_->stop_accepting();
}

bool HttpServer::wait_idle(Duration timeout) {
  ServerState& state = loops_->state();
  std::unique_lock lock(state.mutex);
  return state.idle.wait_for(lock, timeout, [&state] { return state.requests == 0; });
}

void HttpServer::stop() {
  loops_->stop();
}

}  // namespace perigee
