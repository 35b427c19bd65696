#include "base/log.h"

#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>

#include <atomic>

namespace perigee {
namespace {

std::atomic<LogLevel> g_level{LogLevel::info};

spdlog::logger& logger() {
  static const auto instance = [] {
    auto made = std::make_shared<spdlog::logger>("perigee", std::make_shared<spdlog::sinks::stderr_color_sink_mt>());
    made->set_pattern("%Y-%m-%d %H:%M:%S.%e %^%l%$ %v");
    made->set_level(spdlog::level::debug);
    made->flush_on(spdlog::level::debug);
    return made;
  }();
  return *instance;
}

}  // namespace

void set_log_level(LogLevel level) {
  g_level = level;
}

bool log_enabled(LogLevel level) {
  return level >= g_level.load(std::memory_order_relaxed);
}

void log_message(LogLevel level, std::string_view message) {
  switch (level) {
    case LogLevel::debug:
      logger().debug("{}", message);
      break;
    case LogLevel::info:
      logger().info("{}", message);
      break;
    case LogLevel::warning:
      logger().warn("{}", message);
      break;
    case LogLevel::error:
      logger().error("{}", message);
      break;
    case LogLevel::off:
      break;
  }
}

}  // namespace perigee
