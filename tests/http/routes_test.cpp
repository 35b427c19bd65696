// Matching and the router's own answers, with a Reply that only records.
#include "http/routes.h"

#include <gtest/gtest.h>

#include <optional>

namespace perigee {
namespace {

class RecordedReply final : public Reply {
 public:
  void send(HttpResponse response) override { sent = std::move(response); }
  std::shared_ptr<EventStream> start_stream(int /*status*/, Headers /*headers*/) override { return nullptr; }
  void on_disconnect(std::function<void(Disconnect)> /*callback*/) override {}
  std::optional<HttpResponse> sent;
};

class RouterTest : public testing::Test {
 protected:
  RouterTest() {
    for (const char* pattern : {"/health", "/v1/models", "/v1/models/{id}", "/v1/models/special", "/files/{rest...}",
                                "/a/{x}/c/{y}", "/a/{x}/{z...}"}) {
      router_.add("GET", pattern, [this](const auto& request, const auto& reply) {
        last_ = request;
        reply->send({});
      });
    }
    router_.add("POST", "/v1/models/{id}", [](const auto&, const auto& reply) { reply->send({201, "", "", {}}); });
  }

  HttpResponse run(std::string method, std::string path, Headers headers = {}) {
    const auto request = std::make_shared<HttpRequest>();
    request->method = std::move(method);
    request->path = std::move(path);
    request->headers = std::move(headers);
    const auto reply = std::make_shared<RecordedReply>();
    last_ = nullptr;
    router_.route(request, reply);
    EXPECT_TRUE(reply->sent.has_value());
    return reply->sent.value_or(HttpResponse{});
  }

  std::string route_of(const std::string& path) {
    run("GET", path);
    return last_ ? last_->route : "none";
  }

  Router router_;
  std::shared_ptr<HttpRequest> last_;
};

TEST_F(RouterTest, LiteralsBeatParameters) {
  EXPECT_EQ(route_of("/health"), "/health");
  EXPECT_EQ(route_of("/v1/models/special"), "/v1/models/special");
  EXPECT_EQ(route_of("/v1/models/kimi"), "/v1/models/{id}");
  EXPECT_EQ(last_->path_parameter("id"), "kimi");
  EXPECT_EQ(route_of("/a/1/c/2"), "/a/{x}/c/{y}");
  EXPECT_EQ(last_->path_parameter("y"), "2");
  EXPECT_EQ(route_of("/a/1/d/2"), "/a/{x}/{z...}");
  EXPECT_EQ(last_->path_parameter("z"), "d/2");
}

TEST_F(RouterTest, RestTakesSlashesButIsNotEmpty) {
  EXPECT_EQ(route_of("/files/a/b.js"), "/files/{rest...}");
  EXPECT_EQ(last_->path_parameter("rest"), "a/b.js");
  EXPECT_EQ(route_of("/files/"), "none");
  EXPECT_EQ(route_of("/files"), "none");
}

TEST_F(RouterTest, UnknownPathsAre404) {
  for (const char* path : {"/", "/healt", "/health/", "/v1/models/", "/v1/models/a/b", "/v1"}) {
    EXPECT_EQ(run("GET", path).status, 404) << path;
  }
}

TEST_F(RouterTest, WrongMethodNamesTheAllowedOnes) {
  const HttpResponse response = run("DELETE", "/v1/models/kimi");
  EXPECT_EQ(response.status, 405);
  const std::string* allow = find_header(response.headers, "Allow");
  ASSERT_TRUE(allow);
  EXPECT_EQ(*allow, "OPTIONS, GET, POST, HEAD");
}

TEST_F(RouterTest, HeadUsesTheGetHandler) {
  EXPECT_EQ(run("HEAD", "/health").status, 200);
  ASSERT_TRUE(last_);
  EXPECT_EQ(last_->method, "HEAD");
}

TEST_F(RouterTest, OptionsAnswersThePreflight) {
  const HttpResponse response =
      run("OPTIONS", "/v1/models/kimi", {{"Access-Control-Request-Headers", "authorization, x-a"}});
  EXPECT_EQ(response.status, 204);
  EXPECT_EQ(*find_header(response.headers, "Access-Control-Allow-Methods"), "OPTIONS, GET, POST, HEAD");
  EXPECT_EQ(*find_header(response.headers, "Access-Control-Allow-Headers"), "authorization, x-a");
  EXPECT_EQ(run("OPTIONS", "*").status, 204);
}

TEST(Router, ErrorsTakeTheShapeOfTheHook) {
  const Router router([](int status, std::string_view message) {
    return HttpResponse{status, "text/plain", "E:" + std::string(message), {}};
  });
  const auto request = std::make_shared<HttpRequest>();
  request->method = "GET";
  request->path = "/x";
  const auto reply = std::make_shared<RecordedReply>();
  router.route(request, reply);
  EXPECT_EQ(reply->sent->body, "E:There is nothing at GET /x.");
}

TEST(RouterDeathTest, DuplicateRoutesAreFaults) {
  Router router;
  const Handler handler = [](const auto&, const auto&) {};
  router.add("GET", "/a", handler);
  EXPECT_DEATH(router.add("GET", "/a", handler), "added twice");
  EXPECT_DEATH(router.add("GET", "a", handler), "must begin with a slash");
  EXPECT_DEATH(router.add("GET", "/{x...}/b", handler), "only end with a rest");
}

}  // namespace
}  // namespace perigee
