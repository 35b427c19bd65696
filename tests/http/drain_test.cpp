// Shutting down: drain lets what runs finish, stop ends everything, and replies may outlive the server.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <optional>
#include <thread>
#include <vector>

#include "http/client.h"
#include "http/support/raw_client.h"
#include "http/support/test_server.h"

namespace perigee {
namespace {

using std::chrono::milliseconds;

std::string get(std::string_view path) {
  return "GET " + std::string(path) + " HTTP/1.1\r\nHost: t\r\n\r\n";
}

TEST(Drain, FinishesWhatRunsAndRefusesTheRest) {
  TestServer server;
  RawClient idle(server.port());
  idle.send(get("/hello"));
  EXPECT_EQ(idle.read_response().status, 200);
  RawClient streaming(server.port());
  streaming.send(get("/open"));
  RawClient hanging(server.port());
  hanging.send(get("/hang"));
  RawClient reading(server.port());
  reading.send("POST /echo HTTP/1.1\r\nHost: t\r\nContent-Length: 4\r\n\r\nab");
  ASSERT_TRUE(server.wait_open(2));
  RawClient fresh(server.port());
  ASSERT_TRUE(eventually([&] { return server.http().stats().connections == 5; }));

  server.http().stop_accepting();
  EXPECT_TRUE(idle.wait_closed());
  ASSERT_TRUE(eventually([&] { return RawClient(server.port()).descriptor() < 0; })) << "the listener is closed";
  EXPECT_FALSE(server.http().wait_idle(milliseconds(100)));

  fresh.send(get("/hello"));
  EXPECT_EQ(fresh.read_response().body, "hello") << "it connected before the drain";
  EXPECT_TRUE(fresh.wait_closed());
  reading.send("cd");
  const HttpResponse late = reading.read_response();
  EXPECT_EQ(late.body, "abcd");
  EXPECT_EQ(*find_header(late.headers, "Connection"), "close");
  EXPECT_TRUE(reading.wait_closed());

  EXPECT_TRUE(server.streams()[0]->send("last"));
  server.streams()[0]->close();
  EXPECT_TRUE(streaming.read_all().ends_with("data: last\n\n\r\n0\r\n\r\n"));
  EXPECT_FALSE(server.http().wait_idle(milliseconds(50)));
  server.hanging()[0]->send({200, "text/plain", "bye", {}});
  const HttpResponse answer = hanging.read_response();
  EXPECT_EQ(answer.body, "bye");
  EXPECT_EQ(*find_header(answer.headers, "Connection"), "close");
  EXPECT_TRUE(hanging.wait_closed());
  EXPECT_TRUE(server.http().wait_idle(std::chrono::seconds(5)));
  EXPECT_EQ(server.http().stats().lost_clients, 0u);
}

TEST(Drain, AnIdleServerIsIdleAtOnce) {
  TestServer server;
  EXPECT_TRUE(server.http().wait_idle(milliseconds(0)));
  server.http().stop_accepting();
  server.http().stop_accepting();
  EXPECT_TRUE(server.http().wait_idle(milliseconds(0)));
}

TEST(Stop, EndsEverythingAndTellsTheProducers) {
  TestServer server;
  std::vector<RawClient> clients;
  for (int i = 0; i < 20; ++i) {
    clients.emplace_back(server.port());
    clients.back().send(get(i % 2 ? "/open" : "/hang"));
  }
  ASSERT_TRUE(server.wait_open(20));
  server.http().stop();
  EXPECT_EQ(server.lost(Disconnect::server_stopped), 20u);
  for (RawClient& client : clients) EXPECT_TRUE(client.wait_closed());
  EXPECT_TRUE(server.http().wait_idle(milliseconds(0)));
  server.http().stop();
}

TEST(Stop, RepliesMayOutliveTheServer) {
  std::shared_ptr<Reply> reply;
  std::shared_ptr<EventStream> stream;
  std::optional<RawClient> first;
  std::optional<RawClient> second;
  {
    TestServer server;
    first.emplace(server.port());
    second.emplace(server.port());
    first->send(get("/hang"));
    second->send(get("/open"));
    ASSERT_TRUE(server.wait_open(2));
    reply = server.hanging()[0];
    stream = server.streams()[0];
  }
  EXPECT_FALSE(stream->send("x"));
  stream->close();
  bool told = false;
  reply->send({});
  reply->on_disconnect([&told](Disconnect) { told = true; });
  EXPECT_FALSE(told) << "it was answered, if in vain";
}

TEST(Stop, WhileProducersAndClientsAreBusy) {
  for (int round = 0; round < 10; ++round) {
    TestServer server;
    std::vector<RawClient> clients;
    for (int i = 0; i < 10; ++i) {
      clients.emplace_back(server.port());
      clients.back().send(get("/open"));
    }
    ASSERT_TRUE(server.wait_open(10));
    std::atomic<bool> go{true};
    std::vector<std::thread> threads;
    for (int t = 0; t < 2; ++t) {
      threads.emplace_back([&] {
        const auto streams = server.streams();
        while (go) {
          for (const auto& stream : streams) stream->send("spin");
        }
      });
    }
    threads.emplace_back([&] {
      while (go) {
        RawClient passing(server.port());
        if (passing.descriptor() < 0) break;
        passing.send(get("/later"));
      }
    });
    std::this_thread::sleep_for(milliseconds(20 + 5 * round));
    server.http().stop();
    go = false;
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(server.http().stats().requests, 0u);
  }
}

}  // namespace
}  // namespace perigee
