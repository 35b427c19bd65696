// Streams: complete delivery, heartbeats, lost and slow clients, many at once.
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <array>
#include <chrono>
#include <thread>
#include <vector>

#include "base/task_pool.h"
#include "http/client.h"
#include "http/support/raw_client.h"
#include "http/support/test_server.h"

namespace perigee {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

std::string get(std::string_view path) {
  return "GET " + std::string(path) + " HTTP/1.1\r\nHost: t\r\n\r\n";
}

void allow_many_descriptors() {
  rlimit limit{};
  getrlimit(RLIMIT_NOFILE, &limit);
  limit.rlim_cur = std::min<rlim_t>(limit.rlim_max, 8192);
  setrlimit(RLIMIT_NOFILE, &limit);
}

TEST(EventStream, DeliversEveryEventInOrderAndKeepsTheConnection) {
  TestServer server;
  HttpClient client("127.0.0.1", server.port());
  for (const int count : {3000, 0, 1}) {
    int next = 0;
    const auto response =
        client.stream("GET", "/count/" + std::to_string(count), "", {}, [&next](const SseEvent& event) {
          EXPECT_EQ(event.data, std::to_string(next));
          ++next;
          return true;
        });
    ASSERT_TRUE(response) << response.error().message;
    EXPECT_EQ(response->content_type, "text/event-stream; charset=utf-8");
    EXPECT_EQ(*find_header(response->headers, "Cache-Control"), "no-cache");
    EXPECT_EQ(next, count);
  }
  EXPECT_EQ(server.http().stats().accepted, 1u);
}

TEST(EventStream, BytesOnTheWireAreAsDocumented) {
  TestServer server;
  RawClient client(server.port());
  client.send(get("/open"));
  ASSERT_TRUE(server.wait_open(1));
  const auto stream = server.streams()[0];
  client.read_until("\r\n\r\n");
  EXPECT_TRUE(stream->send("a\nb"));
  EXPECT_EQ(client.read_until("\n\n\r\n"), "11\r\ndata: a\ndata: b\n\n\r\n");
  EXPECT_TRUE(stream->send_named("delta", "{}"));
  EXPECT_EQ(client.read_until("\n\n\r\n"), "17\r\nevent: delta\ndata: {}\n\n\r\n");
  EXPECT_TRUE(stream->comment("c"));
  EXPECT_EQ(client.read_until("\n\n\r\n"), "5\r\n: c\n\n\r\n");
  EXPECT_TRUE(eventually([&] { return stream->queued_bytes() == 0; }));
  EXPECT_TRUE(stream->is_open());
  stream->close();
  EXPECT_EQ(client.read_until("0\r\n\r\n"), "0\r\n\r\n");
  EXPECT_FALSE(stream->is_open());
  EXPECT_FALSE(stream->send("late"));
  stream->close();
  client.send(get("/hello"));
  EXPECT_EQ(client.read_response().body, "hello");
  EXPECT_EQ(server.lost(Disconnect::client_closed), 0u);
}

TEST(EventStream, OldClientsGetAPlainStreamUntilTheClose) {
  TestServer server;
  RawClient client(server.port());
  client.send("GET /count/2 HTTP/1.0\r\n\r\n");
  const std::string all = client.read_all();
  EXPECT_EQ(all.find("chunked"), std::string::npos);
  EXPECT_TRUE(all.ends_with("\r\n\r\ndata: 0\n\ndata: 1\n\n")) << all;
}

TEST(EventStream, HeadStopsAfterTheHead) {
  TestServer server;
  RawClient client(server.port());
  client.send("HEAD /open HTTP/1.1\r\nHost: t\r\n\r\n" + get("/hello"));
  EXPECT_EQ(client.read_response(true).status, 200);
  EXPECT_EQ(client.read_response().body, "hello");
  ASSERT_TRUE(server.wait_open(1));
  EXPECT_FALSE(server.streams()[0]->is_open());
}

TEST(EventStream, ADroppedHandleCutsTheStream) {
  TestServer server;
  RawClient client(server.port());
  client.send(get("/open"));
  ASSERT_TRUE(server.wait_open(1));
  client.read_until("\r\n\r\n");
  server.forget();
  EXPECT_EQ(client.read_all(), "");
  EXPECT_EQ(server.lost(Disconnect::client_closed), 0u);
}

TEST(EventStream, SilenceIsFilledWithHeartbeats) {
  ServerLimits limits;
  limits.heartbeat_interval = milliseconds(300);
  TestServer server(limits);
  RawClient client(server.port());
  client.send(get("/open"));
  ASSERT_TRUE(server.wait_open(1));
  client.read_until("\r\n\r\n");
  const auto start = steady_clock::now();
  for (int i = 0; i < 3; ++i) EXPECT_EQ(client.read_until("\n\n\r\n"), "8\r\n: ping\n\n\r\n");
  EXPECT_GE(steady_clock::now() - start, milliseconds(800));
  const auto stream = server.streams()[0];
  for (int i = 0; i < 20; ++i) {
    stream->send("x");
    std::this_thread::sleep_for(milliseconds(30));
  }
  stream->close();
  EXPECT_EQ(client.read_until("0\r\n\r\n").find("ping"), std::string::npos) << "events make heartbeats needless";
}

TEST(EventStream, AClientThatLeavesIsNoticedAtOnceThoughNothingIsWritten) {
  TestServer server;
  for (const char* path : {"/hang", "/open"}) {
    for (const bool reset : {false, true}) {
      const size_t before = server.lost(Disconnect::client_closed);
      const size_t open = server.streams().size() + server.hanging().size();
      RawClient client(server.port());
      client.send(get(path));
      ASSERT_TRUE(server.wait_open(open + 1));
      const auto start = steady_clock::now();
      client.close(reset);
      ASSERT_TRUE(server.wait_lost(Disconnect::client_closed, before + 1));
      // It takes well under a millisecond; the rest is room for a crowded machine.
      EXPECT_LT(steady_clock::now() - start, milliseconds(250)) << path;
    }
  }
  // Answers that come too late do nothing.
  server.hanging()[0]->send({});
  EXPECT_FALSE(server.streams()[0]->send("x"));
  EXPECT_FALSE(server.streams()[0]->is_open());
  EXPECT_EQ(server.http().stats().lost_clients, 4u);
}

TEST(EventStream, LateRegistrationHearsOfALossAtOnce) {
  TestServer server;
  RawClient client(server.port());
  client.send(get("/hang"));
  ASSERT_TRUE(server.wait_open(1));
  const auto reply = server.hanging()[0];
  reply->on_disconnect({});
  client.close();
  ASSERT_TRUE(eventually([&] { return server.http().stats().connections == 0; }));
  int calls = 0;
  reply->on_disconnect([&calls](Disconnect reason) { calls += reason == Disconnect::client_closed ? 1 : 100; });
  reply->on_disconnect([&calls](Disconnect) { calls += 10; });
  EXPECT_EQ(calls, 1) << "once, not again for a second registration";
}

TEST(EventStream, NoDisconnectAfterTheEnd) {
  TestServer server;
  RawClient client(server.port());
  client.send(get("/open"));
  ASSERT_TRUE(server.wait_open(1));
  server.streams()[0]->close();
  client.read_until("0\r\n\r\n");
  client.close();
  ASSERT_TRUE(eventually([&] { return server.http().stats().connections == 0; }));
  EXPECT_EQ(server.lost(Disconnect::client_closed), 0u);
  EXPECT_EQ(server.http().stats().lost_clients, 0u);
}

TEST(EventStream, ALossAfterTheProducerFinishedIsNotItsConcern) {
  TestServer server;
  RawClient client(server.port(), 4096);
  client.send(get("/hang"));
  ASSERT_TRUE(server.wait_open(1));
  const auto reply = server.hanging()[0];
  reply->send({200, "text/plain", std::string(20'000'000, 'x'), {}});
  client.close();
  ASSERT_TRUE(eventually([&] { return server.http().stats().lost_clients == 1; }));
  bool told = false;
  reply->on_disconnect([&told](Disconnect) { told = true; });
  EXPECT_FALSE(told);
  EXPECT_EQ(server.lost(Disconnect::client_closed), 0u);
}

TEST(EventStream, TwoHundredClientsThatLeaveMidStreamAreAllNoticed) {
  TestServer server;
  std::vector<RawClient> clients;
  constexpr size_t kLeaving = 200;
  constexpr size_t kStaying = 100;
  for (size_t i = 0; i < kLeaving + kStaying; ++i) {
    clients.emplace_back(server.port());
    clients.back().send(get("/open"));
  }
  ASSERT_TRUE(server.wait_open(kLeaving + kStaying));
  for (const auto& stream : server.streams()) EXPECT_TRUE(stream->send("one"));
  for (size_t i = 0; i < kLeaving; ++i) clients[i].close(i % 2 == 0);
  EXPECT_TRUE(server.wait_lost(Disconnect::client_closed, kLeaving));
  EXPECT_EQ(server.lost(Disconnect::client_closed), kLeaving);
  for (const auto& stream : server.streams()) {
    stream->send("two");
    stream->close();
  }
  for (size_t i = kLeaving; i < clients.size(); ++i) {
    EXPECT_NE(clients[i].read_until("0\r\n\r\n").find("data: two"), std::string::npos);
  }
  EXPECT_TRUE(server.http().wait_idle(std::chrono::seconds(5)));
}

TEST(EventStream, ASlowReaderIsDroppedWhileOthersGoOn) {
  ServerLimits limits;
  limits.stream_queue_bytes = 256 << 10;
  TestServer server(limits, 1);
  RawClient slow(server.port(), 4096);
  slow.send(get("/open"));
  ASSERT_TRUE(server.wait_open(1));
  RawClient quick(server.port());
  quick.send(get("/open"));
  ASSERT_TRUE(server.wait_open(2));
  const auto streams = server.streams();
  const std::string event(16 << 10, 'e');
  bool refused = false;
  // The kernel's own buffers take some megabytes first.
  for (int i = 0; i < 2000 && !refused; ++i) {
    refused = !streams[0]->send(event);
    ASSERT_LE(streams[0]->queued_bytes(), limits.stream_queue_bytes);
    ASSERT_TRUE(streams[1]->send("tick"));
    ASSERT_NE(quick.read_until("data: tick\n\n").find("tick"), std::string::npos);
  }
  EXPECT_TRUE(refused);
  EXPECT_TRUE(server.wait_lost(Disconnect::slow_client, 1));
  EXPECT_FALSE(streams[0]->is_open());
  EXPECT_TRUE(slow.wait_closed());
  EXPECT_TRUE(streams[1]->send("still here"));
  EXPECT_NE(quick.read_until("still here").find("still here"), std::string::npos);
}

TEST(EventStream, AReaderThatStopsIsDroppedAfterATime) {
  ServerLimits limits;
  limits.slow_client_timeout = milliseconds(300);
  limits.stream_queue_bytes = 64 << 20;
  TestServer server(limits);
  RawClient stuck(server.port(), 4096);
  stuck.send(get("/open"));
  ASSERT_TRUE(server.wait_open(1));
  const auto stream = server.streams()[0];
  const std::string event(1 << 20, 'e');
  for (int i = 0; i < 20; ++i) stream->send(event);
  EXPECT_TRUE(server.wait_lost(Disconnect::slow_client, 1));
  RawClient whole(server.port(), 4096);
  whole.send(get("/big/20000000"));
  EXPECT_TRUE(eventually([&] { return server.http().stats().lost_clients == 2; })) << "plain answers as well";
}

/// Reads `clients` with one poll loop until each has seen the end of its stream; returns how many have, in full.
size_t read_all_streams(std::vector<RawClient>& clients, std::string_view last_event) {
  std::vector<pollfd> items;
  std::vector<std::string> seen(clients.size());
  for (const RawClient& client : clients) items.push_back({client.descriptor(), POLLIN, 0});
  size_t open = items.size();
  size_t complete = 0;
  const auto deadline = steady_clock::now() + std::chrono::seconds(60);
  std::array<char, 65536> chunk;
  while (open > 0 && steady_clock::now() < deadline) {
    ::poll(items.data(), items.size(), 1000);
    for (size_t i = 0; i < items.size(); ++i) {
      if (items[i].fd < 0 || items[i].revents == 0) continue;
      const ssize_t size = ::recv(items[i].fd, chunk.data(), chunk.size(), MSG_DONTWAIT);
      if (size > 0) seen[i].append(chunk.data(), static_cast<size_t>(size));
      const bool done = seen[i].ends_with("0\r\n\r\n");
      if (size > 0 && !done) continue;
      if (done && seen[i].find(last_event) != std::string::npos) ++complete;
      items[i].fd = -1;
      --open;
    }
  }
  return complete;
}

TEST(EventStream, AThousandStreamsAtOnceComplete) {
  allow_many_descriptors();
  constexpr int kStreams = 1000;
  constexpr int kEvents = 20;
  TestServer server;
  std::vector<RawClient> clients;
  clients.reserve(kStreams);
  for (int i = 0; i < kStreams; ++i) {
    clients.emplace_back(server.port());
    ASSERT_GE(clients.back().descriptor(), 0) << i;
    clients.back().send(get("/open"));
  }
  ASSERT_TRUE(server.wait_open(kStreams, std::chrono::seconds(60)));
  EXPECT_EQ(server.http().stats().requests, size_t{kStreams});
  std::thread producer([&] {
    TaskPool pool(2);
    for (const auto& stream : server.streams()) {
      const bool accepted = pool.submit([stream] {
        for (int i = 0; i < kEvents; ++i) stream->send("event " + std::to_string(i));
        stream->close();
      });
      EXPECT_TRUE(accepted);
    }
  });
  EXPECT_EQ(read_all_streams(clients, "data: event 19\n\n"), size_t{kStreams});
  producer.join();
  EXPECT_TRUE(server.http().wait_idle(std::chrono::seconds(10)));
  EXPECT_EQ(server.http().stats().lost_clients, 0u);
}

TEST(ReplyDeathTest, AnsweringTwiceIsAFault) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  EXPECT_DEATH(
      {
        TestServer server;
        RawClient client(server.port());
        client.send(get("/hang"));
        server.wait_open(1);
        server.hanging()[0]->send({});
        server.hanging()[0]->send({});
      },
      "answered twice");
}

}  // namespace
}  // namespace perigee
