// PERIGEE_CHECK(condition, "format", values...): a programmer's fault ends the process with file, line and values.
//
// On in all builds. Never used for input from outside: that gets a Result with a clear error.
#pragma once

#include <fmt/format.h>

#include <string>

namespace perigee {

/// Prints the message and a stack hint to stderr, then aborts.
[[noreturn]] void check_failed(const char* file, int line, const char* condition, const std::string& message);

}  // namespace perigee

#define PERIGEE_CHECK(condition, ...)                                                      \
  do {                                                                                     \
    if (!(condition)) [[unlikely]] {                                                       \
      ::perigee::check_failed(__FILE__, __LINE__, #condition, ::fmt::format(__VA_ARGS__)); \
    }                                                                                      \
  } while (false)
