// The life of a connection as a small state machine over callbacks: idle -> head -> body -> answering -> idle or
// lingering -> closed.
//
// One read is always pending, also while an answer is made: that is how a client that leaves is noticed at once. What
// it brings in then is the next, pipelined request and waits in input_. Timers are not per connection: the io loop
// calls tick().
#include "http/connection.h"

#include <fmt/format.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <algorithm>
#include <boost/asio/post.hpp>
#include <boost/asio/socket_base.hpp>
#include <exception>
#include <utility>

#include "base/log.h"
#include "http/target.h"

namespace perigee {
namespace {

namespace asio = boost::asio;
namespace http = boost::beast::http;

/// Besides the head, input_ may hold chunk headers and trailers; they get this much.
constexpr size_t kChunkHeaderBytes = 8 << 10;
/// How long a refused or faulty client is drained before the close, so that a reset does not eat its answer.
constexpr Duration kLingerTime = std::chrono::seconds(2);
constexpr std::string_view kContinue = "HTTP/1.1 100 Continue\r\n\r\n";

TimePoint now() {
  return SteadyClock().now();
}

int milliseconds(Duration duration) {
  return static_cast<int>(std::chrono::duration_cast<std::chrono::milliseconds>(duration).count());
}

std::string_view view(boost::beast::string_view text) {
  return {text.data(), text.size()};
}

}  // namespace

Connection::Connection(asio::ip::tcp::socket socket, std::shared_ptr<ServerState> state, ConnectionSet& owner)
    : socket_(std::move(socket)), state_(std::move(state)), owner_(owner) {
  boost::system::error_code ignored;
  socket_.non_blocking(true, ignored);
  socket_.set_option(asio::ip::tcp::no_delay(true), ignored);
  socket_.set_option(asio::socket_base::keep_alive(true), ignored);
  // A peer that vanished without a word: the kernel gives up on unacknowledged data.
  const int user_timeout = 2 * milliseconds(state_->options.limits.slow_client_timeout);
  ::setsockopt(socket_.native_handle(), IPPROTO_TCP, TCP_USER_TIMEOUT, &user_timeout, sizeof(user_timeout));
  const auto peer = socket_.remote_endpoint(ignored);
  if (!ignored) remote_address_ = peer.address().to_string(ignored);
  ++state_->connections;
}

Connection::~Connection() {
  if (exchange_) exchange_->disconnect(Disconnect::server_stopped);
  state_->body_bytes -= reserved_body_;
  --state_->connections;
}

void Connection::start() {
  deadline_ = now() + state_->options.limits.header_timeout;
  read();
}

void Connection::refuse() {
  ++state_->refused;
  fail(503, "The server has too many open connections.");
  read();
}

void Connection::read() {
  const bool full = phase_ == Phase::answering && input_.size() >= state_->options.limits.pipelined_bytes;
  if (reading_ || phase_ == Phase::closed || full) return;
  reading_ = true;
  socket_.async_read_some(
      asio::buffer(chunk_),
      [self = shared_from_this()](const boost::system::error_code& error, size_t size) { self->on_read(error, size); });
}

void Connection::on_read(const boost::system::error_code& error, size_t size) {
  reading_ = false;
  if (phase_ == Phase::closed) return;
  if (error) {
    close(Disconnect::client_closed);
    return;
  }
  if (!discard_input_) {
    input_.append(chunk_.data(), size);
    process();
  }
  read();
}

void Connection::process() {
  while (phase_ == Phase::idle || phase_ == Phase::head || phase_ == Phase::body) {
    // RFC 9112, 2.2: empty lines before a request are ignored.
    while (phase_ == Phase::idle && input_.starts_with("\r\n")) input_.erase(0, 2);
    if (input_.empty() || !parse_some()) return;
  }
}

/// One step of the parser; false when it needs more bytes or the request is over.
bool Connection::parse_some() {
  if (phase_ == Phase::idle) {
    if (input_ == "\r") return false;
    begin_request();
  }
  boost::system::error_code error;
  const size_t used = parser_->put(asio::const_buffer(input_.data(), input_.size()), error);
  input_.erase(0, used);
  const bool more = error == http::error::need_more;
  const size_t line_limit = std::max(state_->options.limits.header_bytes, kChunkHeaderBytes);
  if (error && !more) {
    fail_parse(error);
    return false;
  }
  if (more && input_.size() > line_limit) {
    fail(400, "The request holds a line that is too long.");
    return false;
  }
  if (phase_ == Phase::head && parser_->is_header_done() && !on_head()) return false;
  if (phase_ != Phase::body) return false;
  if (!account_body()) return false;
  if (!parser_->is_done()) return used > 0 && !more;
  dispatch();
  return false;
}

void Connection::begin_request() {
  const ServerLimits& limits = state_->options.limits;
  parser_.emplace();
  parser_->header_limit(static_cast<std::uint32_t>(limits.header_bytes));
  parser_->body_limit(limits.body_bytes);
  phase_ = Phase::head;
  deadline_ = now() + limits.header_timeout;
}

void Connection::fail_parse(const boost::system::error_code& error) {
  const ServerLimits& limits = state_->options.limits;
  if (error == http::error::header_limit) {
    fail(431, fmt::format("The request's head is larger than {} bytes.", limits.header_bytes));
  } else if (error == http::error::body_limit) {
    fail(413, fmt::format("The request's body is larger than {} bytes.", limits.body_bytes));
  } else {
    fail(400, fmt::format("The request is not valid HTTP/1.1: {}.", error.message()));
  }
}

/// Checks the finished head and makes the request; false after an error answer.
bool Connection::on_head() {
  const auto& message = parser_->get();
  request_ = std::make_shared<HttpRequest>();
  request_->method = view(message.method_string());
  request_->target = view(message.target());
  request_->remote_address = remote_address_;
  for (const auto& field : message) {
    request_->headers.emplace_back(view(field.name_string()), view(field.value()));
  }
  if (!check_framing()) return false;
  if (const auto parsed = parse_target(*request_); !parsed) {
    fail(400, parsed.error().message);
    return false;
  }
  phase_ = Phase::body;
  deadline_ = now() + state_->options.limits.body_timeout;
  parser_->eager(true);
  return check_expectation();
}

/// Refuses what could make us and a proxy in front disagree about where the request ends (RFC 9112, 3.2 and 6.1).
bool Connection::check_framing() {
  const auto count = [this](std::string_view name) {
    return std::count_if(request_->headers.begin(), request_->headers.end(),
                         [name](const auto& header) { return equals_ignoring_case(header.first, name); });
  };
  const std::string_view encoding = request_->header("Transfer-Encoding");
  const auto hosts = count("Host");
  if (hosts > 1 || (hosts == 0 && parser_->get().version() >= 11)) {
    fail(400, "The request needs exactly one Host header.");
  } else if (count("Content-Length") > 1 || (count("Transfer-Encoding") > 0 && count("Content-Length") > 0)) {
    fail(400, "The request states the length of its body in more than one way.");
  } else if (count("Transfer-Encoding") > 0 && !equals_ignoring_case(encoding, "chunked")) {
    fail(501, fmt::format("The transfer encoding '{}' is not supported.", encoding));
  } else {
    return true;
  }
  return false;
}

bool Connection::check_expectation() {
  const std::string_view expected = request_->header("Expect");
  if (expected.empty() || parser_->get().version() < 11) return true;
  if (!equals_ignoring_case(expected, "100-continue")) {
    fail(417, fmt::format("The expectation '{}' is not supported.", expected));
    return false;
  }
  // A client that sends its body without waiting needs no invitation.
  if (!parser_->is_done() && input_.empty() && !writing_) {
    output_ = kContinue;
    write();
  }
  return true;
}

/// Books the body's growth against the limit for all requests together.
bool Connection::account_body() {
  const size_t size = parser_->get().body().size();
  const size_t grown = size - reserved_body_;
  reserved_body_ = size;
  const size_t total = state_->body_bytes.fetch_add(grown) + grown;
  if (total <= state_->options.limits.total_body_bytes) return true;
  fail(503, "The server holds too many request bodies at the moment.");
  return false;
}

void Connection::dispatch() {
  request_->body = std::move(parser_->get().body());
  // The booking goes with the request, which the handler may keep for long.
  const std::shared_ptr<HttpRequest> request(
      request_.get(), [state = state_, owned = request_, size = std::exchange(reserved_body_, 0)](HttpRequest*) {
        state->body_bytes -= size;
      });
  begin_exchange(parser_->get().version() >= 11, request->method == "HEAD", parser_->keep_alive());
  parser_.reset();
  access_.method = request->method;
  request_.reset();
  // The reply is gone before flush(): a handler that dropped it has answered 500 by then.
  {
    const std::shared_ptr<Reply> reply = make_reply(exchange_);
    try {
      state_->router.route(request, reply);
    } catch (const std::exception& fault) {
      log_error("the handler of {} {} threw: {}", request->method, request->route, fault.what());
      exchange_->fail();
    } catch (...) {
      log_error("the handler of {} {} threw something that is no exception", request->method, request->route);
      exchange_->fail();
    }
  }
  access_.route = request->route;
  flush();
}

void Connection::begin_exchange(bool chunked, bool head_only, bool keep_alive) {
  phase_ = Phase::answering;
  fresh_ = false;
  exchange_ = std::make_shared<Exchange>(state_, Exchange::Form{chunked, head_only, keep_alive},
                                         static_cast<OutputListener*>(this));
  next_ = Exchange::Next::wait;
  access_ = {};
  answer_start_ = last_progress_ = now();
  state_->request_started();
}

void Connection::fail(int status, std::string_view message) {
  discard_input_ = true;
  input_ = {};
  parser_.reset();
  state_->body_bytes -= std::exchange(reserved_body_, 0);
  const std::string method = request_ ? request_->method : "";
  request_.reset();
  begin_exchange(true, method == "HEAD", false);
  access_.method = method;
  HttpResponse response = state_->router.error(status, message);
  if (status == 503) response.headers.emplace_back("Retry-After", "1");
  exchange_->send(std::move(response));
  flush();
}

void Connection::output_ready() {
  // Empty only while the destructor runs, which then tells the exchange.
  if (const auto self = weak_from_this().lock()) {
    asio::post(socket_.get_executor(), [self] { self->flush(); });
  }
}

void Connection::flush() {
  if (!exchange_) return;
  if (writing_) {
    // Only an overflow matters before the write in progress ends; new bytes wait where they are counted.
    if (exchange_->overflowed()) close(Disconnect::slow_client);
    return;
  }
  if (next_ == Exchange::Next::wait) next_ = exchange_->take(output_);
  if (!output_.empty()) {
    write();
  } else if (next_ == Exchange::Next::drop) {
    close(exchange_->drop_reason());
  } else if (next_ == Exchange::Next::finish) {
    finish_exchange();
  }
}

void Connection::write() {
  writing_ = true;
  last_progress_ = now();
  socket_.async_write_some(asio::buffer(output_.data() + output_done_, output_.size() - output_done_),
                           [self = shared_from_this()](const boost::system::error_code& error, size_t size) {
                             self->on_write(error, size);
                           });
}

void Connection::on_write(const boost::system::error_code& error, size_t size) {
  writing_ = false;
  if (phase_ == Phase::closed) return;
  if (error) {
    close(Disconnect::client_closed);
    return;
  }
  output_done_ += size;
  last_progress_ = now();
  if (exchange_) {
    access_.bytes_sent += size;
    exchange_->wrote(size);
  }
  if (output_done_ < output_.size()) {
    write();
    return;
  }
  output_.clear();
  output_done_ = 0;
  flush();
}

void Connection::finish_exchange() {
  record(true);
  const bool keep = exchange_->keep_alive() && !state_->draining && !discard_input_;
  exchange_->end();
  exchange_.reset();
  // A large answer must not stay allocated while the connection idles.
  output_ = {};
  state_->request_ended();
  if (!keep) {
    linger();
    return;
  }
  phase_ = Phase::idle;
  deadline_ = now() + state_->options.limits.idle_timeout;
  process();
  read();
}

void Connection::linger() {
  phase_ = Phase::lingering;
  discard_input_ = true;
  input_ = {};
  deadline_ = now() + kLingerTime;
  boost::system::error_code ignored;
  socket_.shutdown(asio::ip::tcp::socket::shutdown_send, ignored);
  read();
}

void Connection::tick(TimePoint time) {
  switch (phase_) {
    case Phase::idle:
    case Phase::lingering:
      if (time >= deadline_) close(Disconnect::client_closed);
      break;
    case Phase::head:
      if (time >= deadline_) fail(408, "The request's head took too long.");
      break;
    case Phase::body:
      if (time >= deadline_) fail(408, "The request's body took too long.");
      break;
    case Phase::answering:
      tick_answering(time);
      break;
    case Phase::closed:
      break;
  }
}

void Connection::tick_answering(TimePoint time) {
  const ServerLimits& limits = state_->options.limits;
  if (writing_) {
    if (time - last_progress_ >= limits.slow_client_timeout) close(Disconnect::slow_client);
    return;
  }
  if (!reading_ && peer_is_gone()) {
    close(Disconnect::client_closed);
    return;
  }
  if (time - last_progress_ >= limits.heartbeat_interval && exchange_->is_open()) exchange_->push(": ping\n\n");
}

/// For a connection whose read is paused because it pipelines too much: the kernel knows about a FIN behind the data.
bool Connection::peer_is_gone() {
  tcp_info info{};
  socklen_t size = sizeof(info);
  return ::getsockopt(socket_.native_handle(), IPPROTO_TCP, TCP_INFO, &info, &size) == 0 &&
         info.tcpi_state != TCP_ESTABLISHED;
}

void Connection::drain() {
  // A connection that never spoke was opened a moment ago: its request is on the way and deserves its answer.
  if (phase_ == Phase::idle && !fresh_) close(Disconnect::server_stopped);
}

void Connection::close(Disconnect reason) {
  if (phase_ == Phase::closed) return;
  phase_ = Phase::closed;
  const auto self = shared_from_this();
  boost::system::error_code ignored;
  // A reset frees what the kernel still holds for a reader that does not read.
  if (reason == Disconnect::slow_client) socket_.set_option(asio::socket_base::linger(true, 0), ignored);
  socket_.close(ignored);
  owner_.erase(self);
  if (!exchange_) return;
  record(false);
  ++state_->lost_clients;
  const auto exchange = std::move(exchange_);
  exchange_ = nullptr;
  exchange->disconnect(reason);
  state_->request_ended();
}

void Connection::record(bool complete) {
  if (!state_->options.on_finished) return;
  access_.status = exchange_->status();
  access_.duration = now() - answer_start_;
  access_.complete = complete;
  try {
    state_->options.on_finished(access_);
  } catch (const std::exception& fault) {
    log_error("the access hook threw: {}", fault.what());
  }
}

}  // namespace perigee
