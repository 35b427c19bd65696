// Fields: typed reading of a request's JSON object. The first field at fault is kept and named; unknown fields are
// ignored.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "api/errors.h"
#include "base/json.h"

namespace perigee {

class Fields {
 public:
  explicit Fields(const json::object& object, std::string path = {}) : object_(object), path_(std::move(path)) {}

  const std::optional<ApiError>& error() const { return error_; }
  void fail(std::string_view key, std::string_view what);

  /// The value, or nullptr when absent or null.
  const json::value* find(std::string_view key) const;

  std::optional<double> number(std::string_view key, double low, double high);
  std::optional<int64_t> integer(std::string_view key, int64_t low, int64_t high);
  std::optional<bool> boolean(std::string_view key);
  std::optional<std::string> text(std::string_view key, size_t limit = size_t{1} << 26);
  /// A string, or a list of strings.
  std::vector<std::string> texts(std::string_view key, size_t count, size_t bytes);
  /// A list of integers in [0, below).
  std::optional<std::vector<int32_t>> ids(std::string_view key, int64_t below);
  const json::object* object(std::string_view key);
  const json::array* array(std::string_view key);

 private:
  const json::object& object_;
  std::string path_;
  std::optional<ApiError> error_;
};

/// The ids of a JSON list, or nothing when it holds anything else.
std::optional<std::vector<int32_t>> read_ids(const json::array& list, int64_t below);

}  // namespace perigee
