// Counter, Gauge, Histogram and the Registry that renders them in Prometheus' text format 0.0.4.
//
// Metrics are registered once at start-up by the objects that own the numbers; the Registry owns the metrics and lives
// as long as the process' main. Updates are lock-free and come from any thread; render() may run beside them.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace perigee {

/// Label names and values, fixed at registration.
using Labels = std::vector<std::pair<std::string, std::string>>;

/// A sum that only grows.
class Counter {
 public:
  /// `amount` >= 0.
  void add(double amount = 1) { value_.fetch_add(amount, std::memory_order_relaxed); }
  double value() const { return value_.load(std::memory_order_relaxed); }

 private:
  std::atomic<double> value_{0};
};

/// A value that goes up and down.
class Gauge {
 public:
  void set(double value) { value_.store(value, std::memory_order_relaxed); }
  void add(double amount) { value_.fetch_add(amount, std::memory_order_relaxed); }
  double value() const { return value_.load(std::memory_order_relaxed); }

 private:
  std::atomic<double> value_{0};
};

/// Counts observations into fixed buckets; bucket i holds values <= bounds[i], one more holds the rest.
class Histogram {
 public:
  /// `bounds` strictly ascending and finite.
  explicit Histogram(std::vector<double> bounds);
  void observe(double value);

  const std::vector<double>& bounds() const { return bounds_; }
  /// Not cumulative; i in [0, bounds().size()].
  uint64_t bucket(size_t i) const { return counts_[i].load(std::memory_order_relaxed); }
  double sum() const { return sum_.load(std::memory_order_relaxed); }

 private:
  const std::vector<double> bounds_;
  std::unique_ptr<std::atomic<uint64_t>[]> counts_;
  std::atomic<double> sum_{0};
};

class Registry {
 public:
  Registry() = default;
  Registry(const Registry&) = delete;
  Registry& operator=(const Registry&) = delete;

  /// The returned reference lives as long as the Registry. Names match [a-zA-Z_:][a-zA-Z0-9_:]*. Several label sets of
  /// one name form a family: same type and help. A repeated label set, a bad name, or a type that differs within a
  /// family is a programmer's fault. Thread-safe.
  Counter& counter(std::string_view name, std::string_view help, Labels labels = {});
  Gauge& gauge(std::string_view name, std::string_view help, Labels labels = {});
  Histogram& histogram(std::string_view name, std::string_view help, std::vector<double> bounds, Labels labels = {});

  /// `refresh` runs at the start of each render(): for gauges that are cheaper to compute when asked.
  void before_render(std::function<void()> refresh);

  /// The whole text, families in the order of registration. Content type: kMetricsContentType. Thread-safe.
  std::string render() const;

 private:
  enum class Kind { counter, gauge, histogram };
  struct Series {
    Labels labels;
    std::unique_ptr<Counter> counter;
    std::unique_ptr<Gauge> gauge;
    std::unique_ptr<Histogram> histogram;
  };
  struct Family {
    std::string name;
    std::string help;
    Kind kind;
    std::vector<Series> series;
  };
  Series& add(std::string_view name, std::string_view help, Kind kind, Labels labels);
  static void render_series(std::string& out, const Family& family, const Series& series);

  mutable std::mutex mutex_;
  std::vector<Family> families_;
  std::vector<std::function<void()>> refreshers_;
};

inline constexpr std::string_view kMetricsContentType = "text/plain; version=0.0.4; charset=utf-8";

}  // namespace perigee
