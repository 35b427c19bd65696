// Plain POSIX sockets with poll().
#include "http/support/raw_client.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

#include "base/check.h"

namespace perigee {

using SteadyTime = std::chrono::steady_clock;

RawClient::RawClient(uint16_t port, int receive_buffer) {
  descriptor_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  PERIGEE_CHECK(descriptor_ >= 0, "no socket: {}", errno);
  if (receive_buffer > 0) {
    ::setsockopt(descriptor_, SOL_SOCKET, SO_RCVBUF, &receive_buffer, sizeof(receive_buffer));
  }
  const int on = 1;
  ::setsockopt(descriptor_, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  const int code = ::connect(descriptor_, reinterpret_cast<const sockaddr*>(&address), sizeof(address));
  if (code != 0) close();
}

RawClient::~RawClient() {
  close();
}

RawClient::RawClient(RawClient&& other) noexcept
    : descriptor_(std::exchange(other.descriptor_, -1)), ended_(other.ended_), buffer_(std::move(other.buffer_)) {}

bool RawClient::send(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t sent = ::send(descriptor_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent < 0) return false;
    bytes.remove_prefix(static_cast<size_t>(sent));
  }
  return true;
}

bool RawClient::fill(SteadyTime::time_point deadline) {
  if (ended_ || descriptor_ < 0) return false;
  const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline - SteadyTime::now()).count();
  pollfd item{descriptor_, POLLIN, 0};
  if (::poll(&item, 1, static_cast<int>(std::max<long>(left, 0))) <= 0) return false;
  std::array<char, 65536> chunk;
  const ssize_t size = ::recv(descriptor_, chunk.data(), chunk.size(), MSG_DONTWAIT);
  if (size <= 0) {
    ended_ = true;
    return false;
  }
  buffer_.append(chunk.data(), static_cast<size_t>(size));
  return true;
}

std::string RawClient::read_until(std::string_view mark, std::chrono::milliseconds timeout) {
  const auto deadline = SteadyTime::now() + timeout;
  size_t found = std::string::npos;
  while ((found = buffer_.find(mark)) == std::string::npos) {
    if (!fill(deadline)) return std::exchange(buffer_, {});
  }
  std::string out = buffer_.substr(0, found + mark.size());
  buffer_.erase(0, out.size());
  return out;
}

std::string RawClient::read_all(std::chrono::milliseconds timeout) {
  const auto deadline = SteadyTime::now() + timeout;
  while (fill(deadline)) {
  }
  return std::exchange(buffer_, {});
}

HttpResponse RawClient::read_response(bool head_only, std::chrono::milliseconds timeout) {
  const auto deadline = SteadyTime::now() + timeout;
  HttpResponse response;
  response.status = 0;
  std::string head = read_until("\r\n\r\n", timeout);
  if (!head.starts_with("HTTP/1.1 ") || !head.ends_with("\r\n\r\n")) return response;
  const int status = std::stoi(head.substr(9, 3));
  for (size_t line = head.find("\r\n") + 2; line + 2 < head.size();) {
    const size_t end = head.find("\r\n", line);
    const size_t colon = head.find(": ", line);
    response.headers.emplace_back(head.substr(line, colon - line), head.substr(colon + 2, end - colon - 2));
    line = end + 2;
  }
  const std::string* length = find_header(response.headers, "Content-Length");
  const size_t size = length && !head_only ? std::stoul(*length) : 0;
  while (buffer_.size() < size) {
    if (!fill(deadline)) return response;
  }
  response.body = buffer_.substr(0, size);
  buffer_.erase(0, size);
  response.status = status;
  return response;
}

bool RawClient::wait_closed(std::chrono::milliseconds timeout) {
  const auto deadline = SteadyTime::now() + timeout;
  while (fill(deadline)) buffer_.clear();
  return ended_ || descriptor_ < 0;
}

void RawClient::shutdown_write() {
  ::shutdown(descriptor_, SHUT_WR);
}

void RawClient::close(bool reset) {
  if (descriptor_ < 0) return;
  if (reset) {
    const linger option{1, 0};
    ::setsockopt(descriptor_, SOL_SOCKET, SO_LINGER, &option, sizeof(option));
  }
  ::close(std::exchange(descriptor_, -1));
}

}  // namespace perigee
