// log_info("loaded {} tensors", n): one line to stderr with time and level. Thread-safe.
//
// A facade, so that only log.cpp pays for spdlog's headers. User text (prompts, keys) is never logged here.
#pragma once

#include <fmt/format.h>

#include <string>
#include <string_view>

namespace perigee {

enum class LogLevel { debug, info, warning, error, off };

/// Messages below `level` are dropped. Default: info.
void set_log_level(LogLevel level);
bool log_enabled(LogLevel level);
void log_message(LogLevel level, std::string_view message);

template <class... Args>
void log_debug(fmt::format_string<Args...> format, Args&&... args) {
  if (log_enabled(LogLevel::debug)) log_message(LogLevel::debug, fmt::format(format, std::forward<Args>(args)...));
}
template <class... Args>
void log_info(fmt::format_string<Args...> format, Args&&... args) {
  if (log_enabled(LogLevel::info)) log_message(LogLevel::info, fmt::format(format, std::forward<Args>(args)...));
}
template <class... Args>
void log_warning(fmt::format_string<Args...> format, Args&&... args) {
  if (log_enabled(LogLevel::warning)) log_message(LogLevel::warning, fmt::format(format, std::forward<Args>(args)...));
}
template <class... Args>
void log_error(fmt::format_string<Args...> format, Args&&... args) {
  if (log_enabled(LogLevel::error)) log_message(LogLevel::error, fmt::format(format, std::forward<Args>(args)...));
}

}  // namespace perigee
