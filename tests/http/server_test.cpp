// The protocol on the wire: keep-alive, pipelining, bodies, faults in requests and in handlers.
#include "http/server.h"

#include <gtest/gtest.h>

#include <stdexcept>

#include "http/client.h"
#include "http/support/raw_client.h"
#include "http/support/test_server.h"

namespace perigee {
namespace {

using std::chrono::milliseconds;

std::string get(std::string_view path, std::string_view more = "") {
  return "GET " + std::string(path) + " HTTP/1.1\r\nHost: t\r\n" + std::string(more) + "\r\n";
}

TEST(HttpServer, KeepsTheConnectionAlive) {
  TestServer server;
  RawClient client(server.port());
  for (int i = 0; i < 5; ++i) {
    client.send(get("/hello"));
    const HttpResponse response = client.read_response();
    EXPECT_EQ(response.status, 200);
    EXPECT_EQ(response.body, "hello");
    EXPECT_EQ(*find_header(response.headers, "Connection"), "keep-alive");
    EXPECT_EQ(*find_header(response.headers, "Access-Control-Allow-Origin"), "*");
    EXPECT_TRUE(find_header(response.headers, "Date"));
  }
  EXPECT_EQ(server.http().stats().accepted, 1u);
}

TEST(HttpServer, ClosesWhenAsked) {
  TestServer server;
  RawClient client(server.port());
  client.send(get("/hello", "Connection: close\r\n"));
  EXPECT_EQ(*find_header(client.read_response().headers, "Connection"), "close");
  EXPECT_TRUE(client.wait_closed());
  RawClient old(server.port());
  old.send("GET /hello HTTP/1.0\r\n\r\n");
  EXPECT_EQ(old.read_response().body, "hello");
  EXPECT_TRUE(old.wait_closed());
}

TEST(HttpServer, AnswersPipelinedRequestsInOrder) {
  TestServer server;
  RawClient client(server.port());
  // The slow answer comes first although the quick ones are already here; the last is cut in two.
  const std::string last = "POST /echo HTTP/1.1\r\nHost: t\r\nContent-Length: 5\r\n\r\nfifth";
  client.send(get("/later") + get("/hello") + get("/later") + get("/query?4") + last.substr(0, 40));
  EXPECT_EQ(client.read_response().body, "later");
  EXPECT_EQ(client.read_response().body, "hello");
  client.send(last.substr(40));
  EXPECT_EQ(client.read_response().body, "later");
  EXPECT_EQ(client.read_response().body, "GET /query 4 127.0.0.1");
  EXPECT_EQ(client.read_response().body, "fifth");
}

TEST(HttpServer, ReadsARequestByteByByte) {
  TestServer server;
  RawClient client(server.port());
  const std::string request =
      "\r\n\r\nPOST /echo HTTP/1.1\r\nHost: t\r\nTransfer-Encoding: chunked\r\n\r\n"
      "3;x=y\r\nabc\r\n00a\r\n0123456789\r\n0\r\nX-Trailer: 1\r\n\r\n";
  for (const char c : request) client.send({&c, 1});
  EXPECT_EQ(client.read_response().body, "abc0123456789");
  client.send(get("/hello"));
  EXPECT_EQ(client.read_response().body, "hello");
}

TEST(HttpServer, TakesALargeBodyEitherWay) {
  TestServer server;
  const std::string body(3'000'000, 'x');
  HttpClient client("127.0.0.1", server.port());
  const auto response = client.request("POST", "/echo", body, {{"Content-Type", "a/b"}});
  ASSERT_TRUE(response) << response.error().message;
  EXPECT_EQ(response->body, body);
  EXPECT_EQ(response->content_type, "a/b");
  RawClient raw(server.port());
  raw.send("POST /echo HTTP/1.1\r\nHost: t\r\nTransfer-Encoding: chunked\r\n\r\n2dc6c0\r\n" + body + "\r\n0\r\n\r\n");
  EXPECT_EQ(raw.read_response().body, body);
}

TEST(HttpServer, InvitesABodyWhenExpected) {
  TestServer server;
  RawClient client(server.port());
  client.send("POST /echo HTTP/1.1\r\nHost: t\r\nContent-Length: 4\r\nExpect: 100-continue\r\n\r\n");
  EXPECT_EQ(client.read_until("\r\n\r\n"), "HTTP/1.1 100 Continue\r\n\r\n");
  client.send("body");
  EXPECT_EQ(client.read_response().body, "body");
  client.send("POST /echo HTTP/1.1\r\nHost: t\r\nContent-Length: 4\r\nExpect: 100-continue\r\n\r\nbody");
  EXPECT_EQ(client.read_response().status, 200);
  client.send("POST /echo HTTP/1.1\r\nHost: t\r\nContent-Length: 4\r\nExpect: tea\r\n\r\n");
  EXPECT_EQ(client.read_response().status, 417);
}

TEST(HttpServer, HeadHasNoBodyAndOptionsAnswers) {
  TestServer server;
  RawClient client(server.port());
  client.send("HEAD /hello HTTP/1.1\r\nHost: t\r\n\r\n" + get("/hello"));
  const HttpResponse head = client.read_response(true);
  EXPECT_EQ(head.status, 200);
  EXPECT_EQ(*find_header(head.headers, "Content-Length"), "5");
  EXPECT_EQ(client.read_response().body, "hello");
  client.send("OPTIONS /echo HTTP/1.1\r\nHost: t\r\nOrigin: http://x\r\n\r\n");
  const HttpResponse options = client.read_response();
  EXPECT_EQ(options.status, 204);
  EXPECT_FALSE(find_header(options.headers, "Content-Length"));
  EXPECT_EQ(*find_header(options.headers, "Access-Control-Allow-Methods"), "OPTIONS, POST");
}

TEST(HttpServer, MalformedRequestsGet400AndAClose) {
  TestServer server;
  const std::string cases[] = {
      "\x16\x03\x01\x02junk\r\n\r\n",
      "GET\r\n\r\n",
      "GET /hello\r\n\r\n",
      "GET /hello HTTP/3.7\r\nHost: t\r\n\r\n",
      "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
      "GET hello HTTP/1.1\r\nHost: t\r\n\r\n",
      "GET /%zz HTTP/1.1\r\nHost: t\r\n\r\n",
      "GET /hello HTTP/1.1\r\nHost: t\r\nbad header\r\n\r\n",
      "GET /hello HTTP/1.1\r\nHost : t\r\n\r\n",
      "GET /hello HTTP/1.1\r\n\r\n",
      "GET /hello HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
      "POST /echo HTTP/1.1\r\nHost: t\r\nContent-Length: x\r\n\r\n",
      "POST /echo HTTP/1.1\r\nHost: t\r\nContent-Length: -1\r\n\r\n",
      "POST /echo HTTP/1.1\r\nHost: t\r\nContent-Length: 99999999999999999999\r\n\r\n",
      "POST /echo HTTP/1.1\r\nHost: t\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab",
      "POST /echo HTTP/1.1\r\nHost: t\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
      "POST /echo HTTP/1.1\r\nHost: t\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n\r\n",
      "POST /echo HTTP/1.1\r\nHost: t\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nabcd\r\n0\r\n\r\n",
  };
  for (const std::string& request : cases) {
    RawClient client(server.port());
    client.send(request);
    const HttpResponse response = client.read_response();
    EXPECT_EQ(response.status, 400) << request;
    EXPECT_NE(response.body.find(R"("error":{"message":"The request)"), std::string::npos) << response.body;
    EXPECT_EQ(*find_header(response.headers, "Connection"), "close");
    EXPECT_TRUE(client.wait_closed()) << request;
  }
  RawClient client(server.port());
  client.send("POST /echo HTTP/1.1\r\nHost: t\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n");
  EXPECT_EQ(client.read_response().status, 501);
}

TEST(HttpServer, UnknownPathsAndMethodsKeepTheConnection) {
  TestServer server;
  RawClient client(server.port());
  client.send(get("/nothing") + "DELETE /hello HTTP/1.1\r\nHost: t\r\n\r\n" + get("/hello"));
  EXPECT_EQ(client.read_response().status, 404);
  const HttpResponse response = client.read_response();
  EXPECT_EQ(response.status, 405);
  EXPECT_EQ(*find_header(response.headers, "Allow"), "OPTIONS, GET, HEAD");
  EXPECT_EQ(client.read_response().body, "hello");
}

TEST(HttpServer, FaultsInHandlersBecome500WithoutDetails) {
  TestServer server;
  RawClient client(server.port());
  client.send(get("/throw") + get("/drop") + get("/hello"));
  const HttpResponse thrown = client.read_response();
  EXPECT_EQ(thrown.status, 500);
  EXPECT_EQ(thrown.body.find("secret"), std::string::npos);
  EXPECT_EQ(client.read_response().status, 500);
  EXPECT_EQ(client.read_response().body, "hello");
  client.send(get("/throw-in-stream"));
  const std::string cut = client.read_all();
  EXPECT_NE(cut.find("data: first"), std::string::npos);
  EXPECT_EQ(cut.find("0\r\n\r\n"), std::string::npos) << "a broken stream must not look complete";
}

TEST(HttpServer, HeaderValuesCannotForgeHeaders) {
  TestServer server;
  RawClient client(server.port());
  client.send(get("/inject?a%0d%0aSet-Cookie:%20b"));
  const HttpResponse response = client.read_response();
  EXPECT_EQ(response.body, "x");
  EXPECT_FALSE(find_header(response.headers, "Set-Cookie"));
  EXPECT_EQ(*find_header(response.headers, "X-Echo"), "a  Set-Cookie: b");
}

TEST(HttpServer, ListensOnNamesAndOnIPv6) {
  for (const char* host : {"localhost", "::1", "[::1]", "::", "", "0.0.0.0"}) {
    ServerOptions options;
    options.host = host;
    Router router;
    router.add("GET", "/", [](const auto& request, const auto& reply) {
      reply->send({200, "text/plain", request->remote_address, {}});
    });
    HttpServer server(options, std::move(router));
    const bool six = std::string(host).find("::1") != std::string::npos;
    HttpClient client(six ? "::1" : "localhost", server.port());
    const auto response = client.get("/");
    ASSERT_TRUE(response) << host << ": " << response.error().message;
    if (six) {
      EXPECT_EQ(response->body, "::1");
    }
  }
}

TEST(HttpServer, SaysWhyItCannotListen) {
  TestServer server;
  const auto message_of = [](const std::string& host, uint16_t port) -> std::string {
    ServerOptions options;
    options.host = host;
    options.port = port;
    try {
      const HttpServer second(options, Router());
    } catch (const std::runtime_error& error) {
      return error.what();
    }
    return "no error";
  };
  EXPECT_EQ(message_of("127.0.0.1", server.port()),
            "Cannot listen on 127.0.0.1 port " + std::to_string(server.port()) +
                ": Address already in use. Choose another address with --host or another port with --port.");
  EXPECT_NE(message_of("203.0.113.77", 0).find("Cannot assign requested address"), std::string::npos);
  EXPECT_NE(message_of("no.such.host.invalid", 0).find("Cannot listen on no.such.host.invalid"), std::string::npos);
}

TEST(HttpServer, ReportsEveryRequestOnce) {
  TestServer server;
  RawClient client(server.port());
  client.send(get("/hello") + get("/nothing"));
  client.read_response();
  client.read_response();
  RawClient gone(server.port());
  gone.send(get("/hang"));
  ASSERT_TRUE(server.wait_open(1));
  gone.close();
  ASSERT_TRUE(eventually([&] { return server.finished().size() == 3; }));
  const auto records = server.finished();
  EXPECT_EQ(records[0].route, "/hello");
  EXPECT_EQ(records[0].method, "GET");
  EXPECT_EQ(records[0].status, 200);
  EXPECT_GT(records[0].bytes_sent, 100u);
  EXPECT_TRUE(records[0].complete);
  EXPECT_EQ(records[1].route, "");
  EXPECT_EQ(records[1].status, 404);
  EXPECT_EQ(records[2].route, "/hang");
  EXPECT_EQ(records[2].status, 0);
  EXPECT_FALSE(records[2].complete);
}

}  // namespace
}  // namespace perigee
