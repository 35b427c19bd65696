// The client: reuse, reconnection, early stops, clear errors.
#include "http/client.h"

#include <gtest/gtest.h>

#include <chrono>

#include "http/support/test_server.h"

namespace perigee {
namespace {

using std::chrono::milliseconds;

TEST(HttpClient, ReusesItsConnection) {
  TestServer server;
  HttpClient client("127.0.0.1", server.port());
  for (int i = 0; i < 3; ++i) {
    const auto response = client.post_json("/echo", "{}");
    ASSERT_TRUE(response) << response.error().message;
    EXPECT_EQ(response->body, "{}");
    EXPECT_EQ(response->content_type, "application/json");
  }
  ASSERT_TRUE(client.request("HEAD", "/hello"));
  EXPECT_EQ(client.get("/nothing")->status, 404);
  EXPECT_EQ(server.http().stats().accepted, 1u);
}

TEST(HttpClient, ReconnectsWhenTheServerClosedBetweenRequests) {
  ServerLimits limits;
  limits.idle_timeout = milliseconds(100);
  TestServer server(limits);
  HttpClient client("127.0.0.1", server.port());
  ASSERT_TRUE(client.get("/hello"));
  ASSERT_TRUE(eventually([&] { return server.http().stats().connections == 0; }));
  const auto again = client.get("/hello");
  ASSERT_TRUE(again) << again.error().message;
  EXPECT_EQ(again->body, "hello");
  EXPECT_EQ(server.http().stats().accepted, 2u);
}

TEST(HttpClient, StoppingEarlyClosesTheStream) {
  TestServer server;
  HttpClient client("127.0.0.1", server.port());
  std::thread producer([&] {
    ASSERT_TRUE(server.wait_open(1));
    const auto stream = server.streams()[0];
    while (stream->send("tick")) std::this_thread::sleep_for(milliseconds(1));
  });
  int count = 0;
  const auto response = client.stream("GET", "/open", "", {}, [&count](const SseEvent&) { return ++count < 3; });
  ASSERT_TRUE(response) << response.error().message;
  EXPECT_EQ(count, 3);
  EXPECT_TRUE(server.wait_lost(Disconnect::client_closed, 1));
  producer.join();
  EXPECT_EQ(client.get("/hello")->body, "hello");
}

TEST(HttpClient, AnswersThatAreNoStreamComeWhole) {
  TestServer server;
  HttpClient client("127.0.0.1", server.port());
  const auto response = client.stream("GET", "/nothing", "", {}, [](const SseEvent&) { return false; });
  ASSERT_TRUE(response) << response.error().message;
  EXPECT_EQ(response->status, 404);
  EXPECT_FALSE(response->body.empty());
}

TEST(HttpClient, AStreamThatBreaksIsAnError) {
  TestServer server;
  HttpClient client("127.0.0.1", server.port());
  const auto response = client.stream("GET", "/throw-in-stream", "", {}, [](const SseEvent&) { return true; });
  ASSERT_FALSE(response);
}

TEST(HttpClient, ErrorsAreSentences) {
  uint16_t closed_port = 0;
  {
    TestServer server;
    closed_port = server.port();
    HttpClient impatient("127.0.0.1", server.port(), milliseconds(100));
    const auto late = impatient.get("/hang");
    ASSERT_FALSE(late);
    EXPECT_EQ(late.error().message, "The server did not answer within 100 ms.");
  }
  HttpClient client("127.0.0.1", closed_port);
  const auto refused = client.get("/");
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().message,
            "Cannot connect to 127.0.0.1 port " + std::to_string(closed_port) + ": Connection refused.");
}

}  // namespace
}  // namespace perigee
