// Every limit of ServerLimits, from both sides.
#include <gtest/gtest.h>

#include <chrono>
#include <vector>

#include "http/server.h"
#include "http/support/raw_client.h"
#include "http/support/test_server.h"

namespace perigee {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

const std::string kHello = "GET /hello HTTP/1.1\r\nHost: t\r\n\r\n";

TEST(ServerLimits, HeadTooLargeIs431) {
  ServerLimits limits;
  limits.header_bytes = 2000;
  TestServer server(limits);
  RawClient fits(server.port());
  fits.send("GET /hello HTTP/1.1\r\nHost: t\r\nX: " + std::string(1900, 'x') + "\r\n\r\n");
  EXPECT_EQ(fits.read_response().status, 200);
  RawClient whole(server.port());
  whole.send("GET /hello HTTP/1.1\r\nHost: t\r\nX: " + std::string(100'000, 'x') + "\r\n\r\n");
  EXPECT_EQ(whole.read_response().status, 431);
  EXPECT_TRUE(whole.wait_closed());
  RawClient endless(server.port());
  endless.send("GET /" + std::string(2100, 'x'));
  EXPECT_EQ(endless.read_response().status, 431);
}

TEST(ServerLimits, BodyTooLargeIs413) {
  ServerLimits limits;
  limits.body_bytes = 10'000;
  TestServer server(limits);
  RawClient fits(server.port());
  fits.send("POST /echo HTTP/1.1\r\nHost: t\r\nContent-Length: 10000\r\n\r\n" + std::string(10'000, 'x'));
  EXPECT_EQ(fits.read_response().status, 200);
  RawClient announced(server.port());
  announced.send("POST /echo HTTP/1.1\r\nHost: t\r\nContent-Length: 10001\r\nExpect: 100-continue\r\n\r\n");
  EXPECT_EQ(announced.read_response().status, 413);
  // A client still busy sending is drained for a while: a reset could eat its answer.
  for (int i = 0; i < 2; ++i) {
    std::this_thread::sleep_for(milliseconds(50));
    EXPECT_TRUE(announced.send("more"));
  }
  RawClient chunked(server.port());
  chunked.send("POST /echo HTTP/1.1\r\nHost: t\r\nTransfer-Encoding: chunked\r\n\r\n");
  const std::string chunk = "1000\r\n" + std::string(4096, 'x') + "\r\n";
  // The client goes on sending for a while and must still get its answer, not a reset.
  for (int i = 0; i < 100; ++i) ASSERT_TRUE(chunked.send(chunk));
  EXPECT_EQ(chunked.read_response().status, 413);
  EXPECT_TRUE(chunked.wait_closed());
}

TEST(ServerLimits, AnEndlessChunkHeaderIsRefused) {
  TestServer server;
  RawClient client(server.port());
  client.send("POST /echo HTTP/1.1\r\nHost: t\r\nTransfer-Encoding: chunked\r\n\r\n1;" + std::string(40'000, 'x'));
  EXPECT_EQ(client.read_response().status, 400);
}

TEST(ServerLimits, BodiesTogetherAreBounded) {
  ServerLimits limits;
  limits.total_body_bytes = 100'000;
  TestServer server(limits);
  RawClient first(server.port());
  first.send("POST /echo HTTP/1.1\r\nHost: t\r\nContent-Length: 90000\r\n\r\n" + std::string(80'000, 'x'));
  const std::string other =
      "POST /echo HTTP/1.1\r\nHost: t\r\nContent-Length: 30000\r\n\r\n" + std::string(30'000, 'y');
  ASSERT_TRUE(eventually([&] { return server.http().stats().body_bytes == 80'000; }));
  RawClient second(server.port());
  second.send(other);
  const HttpResponse refused = second.read_response();
  EXPECT_EQ(refused.status, 503);
  EXPECT_TRUE(find_header(refused.headers, "Retry-After"));
  EXPECT_EQ(server.http().stats().body_bytes, 80'000u);
  // The first is served, and its share is then free again.
  first.send(std::string(10'000, 'x'));
  EXPECT_EQ(first.read_response().status, 200);
  for (int i = 0; i < 10; ++i) {
    RawClient third(server.port());
    third.send(other);
    EXPECT_EQ(third.read_response().status, 200);
  }
  EXPECT_TRUE(eventually([&] { return server.http().stats().body_bytes == 0; }));
}

TEST(ServerLimits, SlowHeadsAndBodiesGet408) {
  ServerLimits limits;
  limits.header_timeout = milliseconds(200);
  limits.body_timeout = milliseconds(300);
  TestServer server(limits);
  RawClient head(server.port());
  RawClient body(server.port());
  RawClient silent(server.port());
  head.send("GET /hello HTTP/1.1\r\nHo");
  body.send("POST /echo HTTP/1.1\r\nHost: t\r\nContent-Length: 4\r\n\r\nab");
  // Trickling does not extend the deadline.
  for (int i = 0; i < 5; ++i) {
    std::this_thread::sleep_for(milliseconds(30));
    head.send("s");
  }
  EXPECT_EQ(head.read_response().status, 408);
  EXPECT_EQ(body.read_response().status, 408);
  EXPECT_TRUE(head.wait_closed());
  EXPECT_TRUE(body.wait_closed());
  EXPECT_EQ(silent.read_all(), "") << "a connection that never spoke is closed without a word";
  EXPECT_TRUE(eventually([&] { return server.http().stats().connections == 0; }));
}

TEST(ServerLimits, LaterRequestsHaveTheSameHeadDeadline) {
  ServerLimits limits;
  limits.header_timeout = milliseconds(200);
  TestServer server(limits);
  RawClient client(server.port());
  client.send(kHello);
  EXPECT_EQ(client.read_response().status, 200);
  std::this_thread::sleep_for(milliseconds(300));
  client.send("GET /hello HTTP/1.1\r\n");
  EXPECT_EQ(client.read_response(false, milliseconds(3000)).status, 408);
}

TEST(ServerLimits, IdleConnectionsAreClosed) {
  ServerLimits limits;
  limits.idle_timeout = milliseconds(200);
  TestServer server(limits);
  RawClient client(server.port());
  client.send(kHello);
  EXPECT_EQ(client.read_response().status, 200);
  const auto start = steady_clock::now();
  EXPECT_TRUE(client.wait_closed());
  EXPECT_GE(steady_clock::now() - start, milliseconds(150));
}

TEST(ServerLimits, TooManyConnectionsGet503) {
  ServerLimits limits;
  limits.connections = 3;
  TestServer server(limits);
  std::vector<std::unique_ptr<RawClient>> clients;
  for (int i = 0; i < 3; ++i) {
    clients.push_back(std::make_unique<RawClient>(server.port()));
    clients.back()->send(kHello);
    EXPECT_EQ(clients.back()->read_response().status, 200);
  }
  RawClient fourth(server.port());
  fourth.send(kHello);
  const HttpResponse refused = fourth.read_response();
  EXPECT_EQ(refused.status, 503);
  EXPECT_TRUE(find_header(refused.headers, "Retry-After"));
  EXPECT_TRUE(fourth.wait_closed());
  EXPECT_EQ(server.http().stats().refused, 1u);
  clients[0]->send(kHello);
  EXPECT_EQ(clients[0]->read_response().status, 200) << "those inside are not disturbed";
  clients.clear();
  ASSERT_TRUE(eventually([&] { return server.http().stats().connections == 0; }));
  RawClient fifth(server.port());
  fifth.send(kHello);
  EXPECT_EQ(fifth.read_response().status, 200);
}

TEST(ServerLimits, PipelinedFloodIsHeldBackAndItsCloseNoticed) {
  ServerLimits limits;
  limits.pipelined_bytes = 4096;
  TestServer server(limits);
  RawClient client(server.port());
  std::string flood = "GET /hang HTTP/1.1\r\nHost: t\r\n\r\n";
  for (int i = 0; i < 2000; ++i) flood += kHello;
  client.send(flood);
  ASSERT_TRUE(server.wait_open(1));
  client.close();
  EXPECT_TRUE(server.wait_lost(Disconnect::client_closed, 1, milliseconds(1000)));
}

TEST(ServerLimits, PipelinedFloodIsAnsweredInFull) {
  ServerLimits limits;
  limits.pipelined_bytes = 4096;
  TestServer server(limits);
  RawClient client(server.port());
  std::string flood = "GET /later HTTP/1.1\r\nHost: t\r\n\r\n";
  for (int i = 0; i < 2000; ++i) flood += kHello;
  std::thread sender([&] { client.send(flood); });
  EXPECT_EQ(client.read_response().body, "later");
  for (int i = 0; i < 2000; ++i) ASSERT_EQ(client.read_response().body, "hello") << i;
  sender.join();
}

}  // namespace
}  // namespace perigee
