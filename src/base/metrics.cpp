// Metrics: registration checks and the text format (https://prometheus.io/docs/instrumenting/exposition_formats/).
#include "base/metrics.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/check.h"

namespace perigee {
namespace {

bool is_name(std::string_view name, bool colons) {
  if (name.empty() || (name[0] >= '0' && name[0] <= '9')) return false;
  return std::all_of(name.begin(), name.end(), [colons](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           (colons && c == ':');
  });
}

/// Help texts escape backslash and line feed, label values the double quote as well.
std::string escaped(std::string_view text, bool quotes) {
  std::string out;
  for (const char c : text) {
    if (c == '\n') {
      out += "\\n";
    } else {
      if (c == '\\' || (quotes && c == '"')) out += '\\';
      out += c;
    }
  }
  return out;
}

std::string number(double value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value > 0 ? "+Inf" : "-Inf";
  return fmt::format("{}", value);
}

/// {a="1",b="2"} with `le` last when it is not empty; nothing at all without labels.
std::string label_block(const Labels& labels, std::string_view le = {}) {
  if (labels.empty() && le.empty()) return {};
  std::string out;
  for (const auto& [name, value] : labels) out += fmt::format(",{}=\"{}\"", name, escaped(value, true));
  if (!le.empty()) out += fmt::format(",le=\"{}\"", le);
  out[0] = '{';
  out += '}';
  return out;
}

}  // namespace

Histogram::Histogram(std::vector<double> bounds)
    : bounds_(std::move(bounds)), counts_(std::make_unique<std::atomic<uint64_t>[]>(bounds_.size() + 1)) {
  for (size_t i = 0; i < bounds_.size(); ++i) {
    PERIGEE_CHECK(std::isfinite(bounds_[i]), "histogram bound {} is not finite", bounds_[i]);
    PERIGEE_CHECK(i == 0 || bounds_[i - 1] < bounds_[i], "histogram bounds must ascend at {}", bounds_[i]);
  }
}

void Histogram::observe(double value) {
  const auto slot = std::lower_bound(bounds_.begin(), bounds_.end(), value) - bounds_.begin();
  counts_[static_cast<size_t>(slot)].fetch_add(1, std::memory_order_relaxed);
  sum_.fetch_add(value, std::memory_order_relaxed);
}

Registry::Series& Registry::add(std::string_view name, std::string_view help, Kind kind, Labels labels) {
  PERIGEE_CHECK(is_name(name, true), "bad metric name '{}'", name);
  for (const auto& label : labels) {
    PERIGEE_CHECK(is_name(label.first, false) && label.first != "le", "bad label name '{}' of {}", label.first, name);
  }
  auto family = std::find_if(families_.begin(), families_.end(), [&](const Family& f) { return f.name == name; });
  if (family == families_.end()) {
    families_.push_back({std::string(name), std::string(help), kind, {}});
    family = std::prev(families_.end());
  }
  PERIGEE_CHECK(family->kind == kind && family->help == help, "metric {} is registered with two meanings", name);
  for (const Series& series : family->series) {
    PERIGEE_CHECK(series.labels != labels, "metric {}{} is registered twice", name, label_block(labels));
  }
  family->series.push_back({std::move(labels), nullptr, nullptr, nullptr});
  return family->series.back();
}

Counter& Registry::counter(std::string_view name, std::string_view help, Labels labels) {
  const std::lock_guard lock(mutex_);
  Series& series = add(name, help, Kind::counter, std::move(labels));
  series.counter = std::make_unique<Counter>();
  return *series.counter;
}

Gauge& Registry::gauge(std::string_view name, std::string_view help, Labels labels) {
  const std::lock_guard lock(mutex_);
  Series& series = add(name, help, Kind::gauge, std::move(labels));
  series.gauge = std::make_unique<Gauge>();
  return *series.gauge;
}

Histogram& Registry::histogram(std::string_view name, std::string_view help, std::vector<double> bounds,
                               Labels labels) {
  const std::lock_guard lock(mutex_);
  auto made = std::make_unique<Histogram>(std::move(bounds));
  Series& series = add(name, help, Kind::histogram, std::move(labels));
  series.histogram = std::move(made);
  return *series.histogram;
}

void Registry::before_render(std::function<void()> refresh) {
  const std::lock_guard lock(mutex_);
  refreshers_.push_back(std::move(refresh));
}

void Registry::render_series(std::string& out, const Family& family, const Series& series) {
  if (family.kind != Kind::histogram) {
    const double value = series.counter ? series.counter->value() : series.gauge->value();
    out += fmt::format("{}{} {}\n", family.name, label_block(series.labels), number(value));
    return;
  }
  const Histogram& histogram = *series.histogram;
  // The sum is read before the buckets and the count is their total, so that the count always equals the +Inf bucket.
  const double sum = histogram.sum();
  uint64_t count = 0;
  for (size_t i = 0; i <= histogram.bounds().size(); ++i) {
    count += histogram.bucket(i);
    const std::string le = i < histogram.bounds().size() ? number(histogram.bounds()[i]) : "+Inf";
    out += fmt::format("{}_bucket{} {}\n", family.name, label_block(series.labels, le), count);
  }
  out += fmt::format("{}_sum{} {}\n", family.name, label_block(series.labels), number(sum));
  out += fmt::format("{}_count{} {}\n", family.name, label_block(series.labels), count);
}

std::string Registry::render() const {
  std::vector<std::function<void()>> refreshers;
  {
    const std::lock_guard lock(mutex_);
    refreshers = refreshers_;
  }
  for (const auto& refresh : refreshers) refresh();

  constexpr const char* kKindNames[] = {"counter", "gauge", "histogram"};
  std::string out;
  const std::lock_guard lock(mutex_);
  for (const Family& family : families_) {
    out += fmt::format("# HELP {} {}\n", family.name, escaped(family.help, false));
    out += fmt::format("# TYPE {} {}\n", family.name, kKindNames[static_cast<int>(family.kind)]);
    for (const Series& series : family.series) render_series(out, family, series);
  }
  return out;
}

}  // namespace perigee
