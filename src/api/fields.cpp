#include "api/fields.h"

#include <cmath>

namespace perigee {

void Fields::fail(std::string_view key, std::string_view what) {
  if (!error_) error_ = bad_request(fmt::format("{}{} {}", path_, key, what), fmt::format("{}{}", path_, key));
}

const json::value* Fields::find(std::string_view key) const {
  const json::value* value = object_.if_contains(key);
  return value == nullptr || value->is_null() ? nullptr : value;
}

std::optional<double> Fields::number(std::string_view key, double low, double high) {
  const json::value* value = find(key);
  if (value == nullptr) return std::nullopt;
  const double number = value->is_number() ? value->to_number<double>() : std::nan("");
  if (!(number >= low && number <= high)) {
    fail(key, fmt::format("must be a number in [{}, {}]", low, high));
    return std::nullopt;
  }
  return number;
}

std::optional<int64_t> Fields::integer(std::string_view key, int64_t low, int64_t high) {
  const json::value* value = find(key);
  if (value == nullptr) return std::nullopt;
  // 5.0 is an integer to most JSON writers.
  const bool whole = value->is_double() && std::floor(value->get_double()) == value->get_double() &&
                     std::abs(value->get_double()) < 9e15;
  const std::optional<int64_t> number = value->is_int64() ? std::optional(value->get_int64())
                                        : whole           ? std::optional(static_cast<int64_t>(value->get_double()))
                                                          : std::nullopt;
  if (!number || *number < low || *number > high) {
    fail(key, fmt::format("must be an integer in [{}, {}]", low, high));
    return std::nullopt;
  }
  return number;
}

std::optional<bool> Fields::boolean(std::string_view key) {
  const json::value* value = find(key);
  if (value == nullptr) return std::nullopt;
  if (!value->is_bool()) {
    fail(key, "must be true or false");
    return std::nullopt;
  }
  return value->get_bool();
}

std::optional<std::string> Fields::text(std::string_view key, size_t limit) {
  const json::value* value = find(key);
  if (value == nullptr) return std::nullopt;
  if (!value->is_string()) {
    fail(key, "must be a string");
    return std::nullopt;
  }
  if (value->get_string().size() > limit) {
    fail(key, fmt::format("must not be longer than {} bytes", limit));
    return std::nullopt;
  }
  return std::string(value->get_string());
}

std::vector<std::string> Fields::texts(std::string_view key, size_t count, size_t bytes) {
  const json::value* value = find(key);
  if (value == nullptr) return {};
  json::array one;
  if (value->is_string()) one.push_back(*value);
  const json::array* list = value->is_array() ? &value->get_array() : value->is_string() ? &one : nullptr;
  std::vector<std::string> texts;
  if (list == nullptr) {
    fail(key, "must be a string or a list of strings");
    return {};
  }
  if (list->size() > count) fail(key, fmt::format("must not hold more than {} strings", count));
  for (const auto& item : *list) {
    if (!item.is_string() || item.get_string().size() > bytes) {
      fail(key, fmt::format("must be a string or a list of strings, each of {} bytes at most", bytes));
      return {};
    }
    texts.emplace_back(item.get_string());
  }
  return texts;
}

std::optional<std::vector<int32_t>> Fields::ids(std::string_view key, int64_t below) {
  const json::value* value = find(key);
  if (value == nullptr) return std::nullopt;
  if (value->is_array()) {
    if (auto list = read_ids(value->get_array(), below)) return list;
  }
  fail(key, fmt::format("must be a list of token ids in [0, {})", below));
  return std::nullopt;
}

const json::object* Fields::object(std::string_view key) {
  const json::value* value = find(key);
  if (value != nullptr && !value->is_object()) fail(key, "must be an object");
  return value == nullptr ? nullptr : value->if_object();
}

const json::array* Fields::array(std::string_view key) {
  const json::value* value = find(key);
  if (value != nullptr && !value->is_array()) fail(key, "must be a list");
  return value == nullptr ? nullptr : value->if_array();
}

std::optional<std::vector<int32_t>> read_ids(const json::array& list, int64_t below) {
  std::vector<int32_t> ids;
  for (const auto& item : list) {
    if (!item.is_int64() || item.get_int64() < 0 || item.get_int64() >= below) return std::nullopt;
    ids.push_back(static_cast<int32_t>(item.get_int64()));
  }
  return ids;
}

}  // namespace perigee
