// A blocking socket with poll() for its waits, and Beast's parser for the answers.
#include "http/client.h"

#include <fmt/format.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <boost/asio/buffer.hpp>
#include <boost/beast/http/parser.hpp>
#include <cerrno>
#include <system_error>
#include <utility>

#include "http/body.h"

namespace perigee {
namespace {

namespace http = boost::beast::http;

constexpr size_t kHeaderLimit = 256 << 10;

std::string system_error(int code) {
  return std::generic_category().message(code);
}

std::string_view view(boost::beast::string_view text) {
  return {text.data(), text.size()};
}

}  // namespace

/// One open socket.
class HttpClient::Connection {
 public:
  Connection(int descriptor, Duration timeout) : descriptor_(descriptor), timeout_(timeout) {}
  ~Connection() { ::close(descriptor_); }
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  static Result<std::unique_ptr<Connection>> open(const std::string& host, uint16_t port, Duration timeout);

  Result<void> write(std::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t sent = ::send(descriptor_, bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
      if (sent >= 0) {
        bytes.remove_prefix(static_cast<size_t>(sent));
      } else if (errno == EAGAIN) {
        if (auto ready = wait(POLLOUT); !ready) return ready;
      } else if (errno != EINTR) {
        return Error{fmt::format("Sending the request failed: {}.", system_error(errno))};
      }
    }
    return {};
  }

  /// Some bytes, or an empty view at the end of the connection; valid until the next call.
  Result<std::string_view> read() {
    while (true) {
      const ssize_t size = ::recv(descriptor_, chunk_.data(), chunk_.size(), MSG_DONTWAIT);
      if (size >= 0) return std::string_view(chunk_.data(), static_cast<size_t>(size));
      if (errno == EAGAIN) {
        if (auto ready = wait(POLLIN); !ready) return ready.error();
      } else if (errno != EINTR) {
        return Error{fmt::format("Reading the answer failed: {}.", system_error(errno))};
      }
    }
  }

  Result<void> wait(short events) {
    pollfd item{descriptor_, events, 0};
    const auto ms = std::chrono::duration_cast<std::chrono::milliseconds>(timeout_).count();
    const int ready = ::poll(&item, 1, static_cast<int>(ms));
    if (ready == 0) return Error{fmt::format("The server did not answer within {} ms.", ms)};
    if (ready < 0 && errno != EINTR) return Error{fmt::format("Waiting failed: {}.", system_error(errno))};
    return {};
  }

 private:
  int descriptor_;
  Duration timeout_;
  std::array<char, 16384> chunk_;
};

Result<std::unique_ptr<HttpClient::Connection>> HttpClient::Connection::open(const std::string& host, uint16_t port,
                                                                             Duration timeout) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (const int code = ::getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &found); code != 0) {
    return Error{fmt::format("The host {} is unknown: {}.", host, ::gai_strerror(code))};
  }
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> owned(found, &::freeaddrinfo);
  int reason = 0;
  for (const addrinfo* item = found; item; item = item->ai_next) {
    const int descriptor = ::socket(item->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (descriptor < 0) {
      reason = errno;
      continue;
    }
    auto made = std::make_unique<Connection>(descriptor, timeout);
    const int on = 1;
    ::setsockopt(descriptor, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    if (::connect(descriptor, item->ai_addr, item->ai_addrlen) == 0) return made;
    reason = errno;
    if (reason != EINPROGRESS) continue;
    reason = ETIMEDOUT;
    if (!made->wait(POLLOUT)) continue;
    socklen_t size = sizeof(reason);
    ::getsockopt(descriptor, SOL_SOCKET, SO_ERROR, &reason, &size);
    if (reason == 0) return made;
  }
  return Error{fmt::format("Cannot connect to {} port {}: {}.", host, port, system_error(reason))};
}

HttpClient::HttpClient(std::string host, uint16_t port, Duration timeout)
    : host_(std::move(host)), port_(port), timeout_(timeout) {}
HttpClient::~HttpClient() = default;
HttpClient::HttpClient(HttpClient&&) noexcept = default;
HttpClient& HttpClient::operator=(HttpClient&&) noexcept = default;

namespace {

/// Collects one answer from bytes, events included.
class Answer {
 public:
  Answer(bool head_only, const std::function<bool(const SseEvent&)>& on_event) : on_event_(on_event) {
    parser_.header_limit(kHeaderLimit);
    parser_.body_limit(boost::none);
    parser_.eager(true);
    parser_.skip(head_only);
  }

  /// An Error for bytes that are no HTTP. An empty view is the end of the connection.
  Result<void> feed(std::string_view bytes) {
    boost::system::error_code error;
    if (bytes.empty()) {
      if (parser_.is_header_done()) parser_.put_eof(error);
      if (error || !parser_.is_header_done()) {
        return Error{"The server closed the connection in the middle of its answer."};
      }
    }
    input_ += bytes;
    while (!input_.empty() && !done() && !error) {
      const size_t used = parser_.put(boost::asio::const_buffer(input_.data(), input_.size()), error);
      input_.erase(0, used);
    }
    if (error && error != http::error::need_more) {
      return Error{fmt::format("The answer is not valid HTTP: {}.", error.message())};
    }
    return take_events();
  }

  bool started() const { return parser_.got_some(); }
  bool done() const { return parser_.is_done() || stopped_; }
  /// The connection may carry another request.
  bool reusable() const { return !stopped_ && input_.empty() && parser_.keep_alive(); }

  HttpResponse take() {
    HttpResponse response;
    auto& message = parser_.get();
    response.status = static_cast<int>(message.result_int());
    response.content_type = view(message[http::field::content_type]);
    for (const auto& field : message) response.headers.emplace_back(view(field.name_string()), view(field.value()));
    response.body = std::move(message.body());
    return response;
  }

 private:
  Result<void> take_events() {
    if (!on_event_ || !parser_.is_header_done()) return {};
    if (!view(parser_.get()[http::field::content_type]).starts_with("text/event-stream")) return {};
    const std::string body = std::exchange(parser_.get().body(), {});
    const bool fits = events_.feed(body, [this](const SseEvent& event) {
      if (!stopped_ && !on_event_(event)) stopped_ = true;
    });
    if (!fits) return Error{"An event of the answer is too large."};
    return {};
  }

  http::response_parser<GrowingBody> parser_;
  const std::function<bool(const SseEvent&)>& on_event_;
  SseParser events_;
  std::string input_;
  bool stopped_ = false;
};

}  // namespace

Result<HttpResponse> HttpClient::request(std::string_view method, std::string_view target, std::string_view body,
                                         const Headers& headers) {
  return stream(method, target, body, headers, {});
}

Result<HttpResponse> HttpClient::post_json(std::string_view target, std::string_view body) {
  return request("POST", target, body, {{"Content-Type", "application/json"}});
}

Result<HttpResponse> HttpClient::stream(std::string_view method, std::string_view target, std::string_view body,
                                        const Headers& headers, const std::function<bool(const SseEvent&)>& on_event) {
  const bool v6 = host_.find(':') != std::string::npos;
  std::string bytes =
      fmt::format("{} {} HTTP/1.1\r\nHost: {}{}{}:{}\r\n", method, target, v6 ? "[" : "", host_, v6 ? "]" : "", port_);
  for (const auto& [name, value] : headers) bytes += fmt::format("{}: {}\r\n", name, value);
  if (!body.empty() || method == "POST") bytes += fmt::format("Content-Length: {}\r\n", body.size());
  bytes += "\r\n";
  bytes += body;

  while (true) {
    const bool reused = connection_ != nullptr;
    if (!reused) {
      auto opened = Connection::open(host_, port_, timeout_);
      if (!opened) return opened.error();
      connection_ = std::move(*opened);
    }
    Answer answer(method == "HEAD", on_event);
    // A server may answer early (413) and stop reading: its answer counts more than our failure to send.
    Result<void> state = connection_->write(bytes);
    const Result<void> sent = state;
    bool ended = false;
    for (state = {}; state.ok() && !answer.done();) {
      const auto chunk = connection_->read();
      ended = !chunk || chunk->empty();
      state = chunk ? answer.feed(*chunk) : Result<void>(chunk.error());
    }
    if (state.ok()) {
      if (ended || !sent || !answer.reusable()) connection_.reset();
      return answer.take();
    }
    connection_.reset();
    if (!reused || !ended || answer.started()) return sent ? state.error() : sent.error();
  }
}

}  // namespace perigee
