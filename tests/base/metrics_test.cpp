// The text format byte for byte, and updates from many threads.
#include "base/metrics.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <thread>
#include <vector>

namespace perigee {
namespace {

TEST(Metrics, RendersCountersAndGaugesByFamily) {
  Registry registry;
  Counter& get = registry.counter("http_requests_total", "Requests, by method.", {{"method", "GET"}});
  Gauge& running = registry.gauge("sglang:num_running_reqs", "Requests that run now.");
  Counter& post = registry.counter("http_requests_total", "Requests, by method.", {{"method", "POST"}});
  get.add();
  get.add(2);
  post.add(0.5);
  running.set(7);
  running.add(-2);
  EXPECT_EQ(registry.render(),
            "# HELP http_requests_total Requests, by method.\n"
            "# TYPE http_requests_total counter\n"
            "http_requests_total{method=\"GET\"} 3\n"
            "http_requests_total{method=\"POST\"} 0.5\n"
            "# HELP sglang:num_running_reqs Requests that run now.\n"
            "# TYPE sglang:num_running_reqs gauge\n"
            "sglang:num_running_reqs 5\n");
}

TEST(Metrics, HistogramBucketsAreCumulativeAndUpperBoundsInclusive) {
  Registry registry;
  Histogram& latency = registry.histogram("latency_seconds", "Time.", {0.1, 1, 2.5}, {{"stage", "prefill"}});
  for (const double value : {0.05, 0.1, 0.2, 2.5, 3.0}) latency.observe(value);
  EXPECT_EQ(registry.render(),
            "# HELP latency_seconds Time.\n"
            "# TYPE latency_seconds histogram\n"
            "latency_seconds_bucket{stage=\"prefill\",le=\"0.1\"} 2\n"
            "latency_seconds_bucket{stage=\"prefill\",le=\"1\"} 3\n"
            "latency_seconds_bucket{stage=\"prefill\",le=\"2.5\"} 4\n"
            "latency_seconds_bucket{stage=\"prefill\",le=\"+Inf\"} 5\n"
            "latency_seconds_sum{stage=\"prefill\"} 5.85\n"
            "latency_seconds_count{stage=\"prefill\"} 5\n");
}

TEST(Metrics, EscapesHelpAndLabelValues) {
  Registry registry;
  registry.gauge("g", "a \\ b\nc \"d\"", {{"path", "C:\\x\n\"y\""}, {"b", ""}});
  EXPECT_EQ(registry.render(),
            "# HELP g a \\\\ b\\nc \"d\"\n"
            "# TYPE g gauge\n"
            "g{path=\"C:\\\\x\\n\\\"y\\\"\",b=\"\"} 0\n");
}

TEST(Metrics, SpellsValuesThatAreNotFinite) {
  Registry registry;
  registry.gauge("a", "h").set(std::numeric_limits<double>::infinity());
  registry.gauge("b", "h").set(-std::numeric_limits<double>::infinity());
  registry.gauge("c", "h").set(std::nan(""));
  registry.gauge("d", "h").set(1234567890123.0);
  const std::string text = registry.render();
  EXPECT_NE(text.find("\na +Inf\n"), std::string::npos);
  EXPECT_NE(text.find("\nb -Inf\n"), std::string::npos);
  EXPECT_NE(text.find("\nc NaN\n"), std::string::npos);
  EXPECT_NE(text.find("\nd 1234567890123\n"), std::string::npos);
}

TEST(Metrics, RefreshersRunBeforeEachRender) {
  Registry registry;
  Gauge& gauge = registry.gauge("polled", "h");
  registry.before_render([&gauge] { gauge.add(1); });
  EXPECT_NE(registry.render().find("polled 1\n"), std::string::npos);
  EXPECT_NE(registry.render().find("polled 2\n"), std::string::npos);
}

TEST(Metrics, NothingIsLostBetweenThreads) {
  Registry registry;
  Counter& counter = registry.counter("n_total", "h");
  Histogram& histogram = registry.histogram("h", "h", {0.5});
  constexpr int kThreads = 4;
  constexpr int kTimes = 20000;
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&] {
      for (int j = 0; j < kTimes; ++j) {
        counter.add();
        histogram.observe(j % 2);
      }
    });
  }
  for (int i = 0; i < 20; ++i) registry.render();
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(counter.value(), kThreads * kTimes);
  EXPECT_EQ(histogram.bucket(0), uint64_t{kThreads * kTimes / 2});
  EXPECT_EQ(histogram.bucket(1), uint64_t{kThreads * kTimes / 2});
  EXPECT_EQ(histogram.sum(), kThreads * kTimes / 2);
}

TEST(MetricsDeathTest, RegistrationMistakesAreFaults) {
  Registry registry;
  registry.counter("a_total", "h", {{"x", "1"}});
  EXPECT_DEATH(registry.counter("a_total", "h", {{"x", "1"}}), "registered twice");
  EXPECT_DEATH(registry.gauge("a_total", "h", {{"x", "2"}}), "two meanings");
  EXPECT_DEATH(registry.counter("9lives", "h"), "bad metric name");
  EXPECT_DEATH(registry.counter("b_total", "h", {{"le", "1"}}), "bad label name");
  EXPECT_DEATH(registry.histogram("h", "h", {2, 1}), "must ascend");
}

}  // namespace
}  // namespace perigee
