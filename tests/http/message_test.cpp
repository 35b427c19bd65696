// Header look-up, escapes, queries, targets and the plain error body.
#include "http/message.h"

#include <gtest/gtest.h>

#include "base/json.h"
#include "http/target.h"

namespace perigee {
namespace {

TEST(Message, HeadersCompareWithoutCase) {
  HttpRequest request;
  request.headers = {{"X-Request-ID", "7"}, {"x-request-id", "8"}};
  EXPECT_EQ(request.header("x-REQUEST-id"), "7");
  EXPECT_EQ(request.header("X-Request"), "");
}

TEST(Message, DecodesPercentEscapes) {
  EXPECT_EQ(percent_decode("a%2Fb%c3%A9+"), "a/b\xc3\xa9+");
  EXPECT_EQ(percent_decode("a+b", true), "a b");
  EXPECT_FALSE(percent_decode("%"));
  EXPECT_FALSE(percent_decode("%2"));
  EXPECT_FALSE(percent_decode("%2g"));
}

TEST(Message, FindsQueryParameters) {
  HttpRequest request;
  request.query = "a=1&b%20c=x+y%26&flag&a=2&bad=%zz";
  EXPECT_EQ(request.query_parameter("a"), "1");
  EXPECT_EQ(request.query_parameter("b c"), "x y&");
  EXPECT_EQ(request.query_parameter("flag"), "");
  EXPECT_FALSE(request.query_parameter("bad"));
  EXPECT_FALSE(request.query_parameter("none"));
}

HttpRequest target(std::string text, std::string method = "GET") {
  HttpRequest request;
  request.method = std::move(method);
  request.target = std::move(text);
  if (!parse_target(request)) request.path = "error";
  return request;
}

TEST(Message, TakesTargetsApart) {
  EXPECT_EQ(target("/a%20b?x=%20#f").path, "/a b");
  EXPECT_EQ(target("/a%20b?x=%20#f").query, "x=%20");
  EXPECT_EQ(target("http://host:80/p/q?r").path, "/p/q");
  EXPECT_EQ(target("http://host:80/p/q?r").query, "r");
  EXPECT_EQ(target("http://host").path, "/");
  EXPECT_EQ(target("*", "OPTIONS").path, "*");
  EXPECT_EQ(target("*").path, "error");
  EXPECT_EQ(target("host:443", "CONNECT").path, "error");
  EXPECT_EQ(target("/%00").path, "error");
  EXPECT_EQ(target("/%4").path, "error");
}

TEST(Message, DefaultErrorIsValidJson) {
  const HttpResponse response = default_error_response(404, "no \"such\"\nthing");
  EXPECT_EQ(response.status, 404);
  const auto parsed = parse_json(response.body);
  ASSERT_TRUE(parsed);
  EXPECT_EQ(parsed->at("error").at("message").as_string(), "no \"such\"\nthing");
  EXPECT_EQ(parsed->at("error").at("type").as_string(), "invalid_request_error");
  EXPECT_EQ(parsed->at("error").at("code").as_int64(), 404);
}

}  // namespace
}  // namespace perigee
