// Result<T>: a value or an Error, for everything that can fail because of its input.
//
// Start-up code and programmer's faults use exceptions and PERIGEE_CHECK instead (see check.h); Result is for files,
// requests and anything else that comes from outside. Plain value types, no allocation besides the message.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <variant>

#include "base/check.h"

namespace perigee {

/// What went wrong, as one full sentence for a human.
struct Error {
  std::string message;
};

/// Either a T or an E. `if (!r) return r.error();` is the usual way to pass a failure on.
template <class T, class E = Error>
class [[nodiscard]] Result {
 public:
  Result(T value) : state_(std::in_place_index<0>, std::move(value)) {}  // NOLINT(google-explicit-constructor)
  Result(E error) : state_(std::in_place_index<1>, std::move(error)) {}  // NOLINT(google-explicit-constructor)

  explicit operator bool() const { return state_.index() == 0; }
  bool ok() const { return state_.index() == 0; }

  T& value() & {
    PERIGEE_CHECK(ok(), "Result holds an error");
    return std::get<0>(state_);
  }
  const T& value() const& {
    PERIGEE_CHECK(ok(), "Result holds an error");
    return std::get<0>(state_);
  }
  T&& value() && {
    PERIGEE_CHECK(ok(), "Result holds an error");
    return std::get<0>(std::move(state_));
  }
  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }
  T&& operator*() && { return std::move(*this).value(); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }

  const E& error() const {
    PERIGEE_CHECK(!ok(), "Result holds a value");
    return std::get<1>(state_);
  }

 private:
  std::variant<T, E> state_;
};

/// Success or an E, for functions without a value.
template <class E>
class [[nodiscard]] Result<void, E> {
 public:
  Result() = default;
  Result(E error) : error_(std::move(error)) {}  // NOLINT(google-explicit-constructor)

  explicit operator bool() const { return !error_; }
  bool ok() const { return !error_; }
  const E& error() const {
    PERIGEE_CHECK(error_.has_value(), "Result holds no error");
    return *error_;
  }

 private:
  std::optional<E> error_;
};

}  // namespace perigee
