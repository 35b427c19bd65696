// Connection: one accepted socket, from its first byte to its close. Private to http/ (it includes Beast).
//
// Lives on one io thread and is touched by no other, except for output_ready(). Owned by the ConnectionSet of its io
// loop until it closes; asynchronous operations in flight hold it alive a little longer.
#pragma once

#include <array>
#include <boost/asio/ip/tcp.hpp>
#include <boost/beast/http/parser.hpp>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_set>

#include "base/clock.h"
#include "http/body.h"
#include "http/exchange.h"
#include "http/server_state.h"

namespace perigee {

class Connection;
using ConnectionSet = std::unordered_set<std::shared_ptr<Connection>>;

class Connection final : public std::enable_shared_from_this<Connection>, private OutputListener {
 public:
  Connection(boost::asio::ip::tcp::socket socket, std::shared_ptr<ServerState> state, ConnectionSet& owner);
  ~Connection();
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  void start();
  /// Instead of start(): answers 503 and closes.
  void refuse();
  /// Checks every deadline and the heartbeat; called some 20 times a second.
  void tick(TimePoint now);
  /// Closes an idle connection; a busy or new one ends with its answer (ServerState::draining is already set).
  void drain();
  void close(Disconnect reason);

 private:
  enum class Phase { idle, head, body, answering, lingering, closed };

  void read();
  void on_read(const boost::system::error_code& error, size_t size);
  void process();
  bool parse_some();
  void begin_request();
  void fail_parse(const boost::system::error_code& error);
  bool on_head();
  bool check_framing();
  bool check_expectation();
  bool account_body();
  void dispatch();
  void fail(int status, std::string_view message);
  void begin_exchange(bool chunked, bool head_only, bool keep_alive);

  void output_ready() override;
  void flush();
  void write();
  void on_write(const boost::system::error_code& error, size_t size);
  void finish_exchange();
  void linger();
  void tick_answering(TimePoint now);
  bool peer_is_gone();
  void record(bool complete);

  boost::asio::ip::tcp::socket socket_;
  const std::shared_ptr<ServerState> state_;
  ConnectionSet& owner_;
  std::string remote_address_;

  Phase phase_ = Phase::idle;
  TimePoint deadline_{};
  std::array<char, 8192> chunk_;
  std::string input_;  ///< read and not yet parsed: a partial head, or pipelined requests
  bool reading_ = false;
  bool discard_input_ = false;
  bool fresh_ = true;  ///< no request yet

  std::optional<boost::beast::http::request_parser<GrowingBody>> parser_;
  std::shared_ptr<HttpRequest> request_;  ///< from the end of the head to dispatch
  size_t reserved_body_ = 0;              ///< this request's share of ServerState::body_bytes until dispatch

  std::shared_ptr<Exchange> exchange_;
  Exchange::Next next_ = Exchange::Next::wait;
  std::string output_;
  size_t output_done_ = 0;
  bool writing_ = false;
  TimePoint last_progress_{};
  TimePoint answer_start_{};
  AccessRecord access_;
};

}  // namespace perigee
