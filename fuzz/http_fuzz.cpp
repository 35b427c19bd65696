// Fuzzes the HTTP server through a real socket: whatever bytes come, it must answer or close, and never crash or hang.
//
// The input is sent in two pieces, cut at a place that the input chooses, so that partial requests are met as well. The
// event-stream reader gets the same bytes and must not care where they are cut.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "base/check.h"
#include "base/log.h"
#include "http/server.h"
#include "http/sse.h"

namespace {

using namespace perigee;

Router make_router() {
  Router router;
  const Handler echo = [](const auto& request, const auto& reply) {
    const auto value = request->query_parameter("q");
    reply->send({200,
                 "text/plain",
                 request->body + value.value_or("") + std::string(request->path_parameter("rest")),
                 {{"X-Echo", request->path}}});
  };
  router.add("GET", "/{rest...}", echo);
  router.add("POST", "/echo", echo);
  router.add("GET", "/stream", [](const auto&, const auto& reply) {
    const auto stream = reply->start_stream();
    stream->send("x");
    stream->close();
  });
  return router;
}

uint16_t server_port() {
  static const auto server = [] {
    set_log_level(LogLevel::off);
    ServerOptions options;
    options.limits.body_bytes = 64 << 10;
    options.limits.header_bytes = 2 << 10;
    return std::make_unique<HttpServer>(std::move(options), make_router());
  }();
  return server->port();
}

void exchange(std::string_view first, std::string_view second) {
  const int descriptor = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(server_port());
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  PERIGEE_CHECK(::connect(descriptor, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0, "no server");
  for (const std::string_view piece : {first, second}) {
    if (!piece.empty()) (void)::send(descriptor, piece.data(), piece.size(), MSG_NOSIGNAL);
  }
  ::shutdown(descriptor, SHUT_WR);
  std::array<char, 4096> chunk;
  pollfd item{descriptor, POLLIN, 0};
  while (true) {
    PERIGEE_CHECK(::poll(&item, 1, 5000) == 1, "the server neither answered nor closed");
    if (::recv(descriptor, chunk.data(), chunk.size(), 0) <= 0) break;
  }
  // A reset leaves no port behind in TIME_WAIT.
  const linger option{1, 0};
  ::setsockopt(descriptor, SOL_SOCKET, SO_LINGER, &option, sizeof(option));
  ::close(descriptor);
}

std::string read_events(std::string_view first, std::string_view second) {
  SseParser parser;
  std::string seen;
  for (const std::string_view piece : {first, second}) {
    parser.feed(piece, [&seen](const SseEvent& event) { seen += event.event + "|" + event.data + "||"; });
  }
  return seen;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const std::string_view bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  const size_t cut = bytes.size() * data[0] / 255;
  PERIGEE_CHECK(read_events(bytes, {}) == read_events(bytes.substr(0, cut), bytes.substr(cut)), "cuts change events");
  exchange(bytes.substr(0, cut), bytes.substr(cut));
  return 0;
}
