#include "model/safetensors.h"

#include <algorithm>
#include <cstring>

#include "base/file.h"
#include "base/json.h"

namespace perigee {
namespace {

/// Bytes per element of the format's dtypes; 0 for an unknown name.
int64_t element_bytes(std::string_view dtype) {
  for (const auto& [name, bytes] : {std::pair{"F64", 8},
                                    {"I64", 8},
                                    {"U64", 8},
                                    {"F32", 4},
                                    {"I32", 4},
                                    {"U32", 4},
                                    {"BF16", 2},
                                    {"F16", 2},
                                    {"I16", 2},
                                    {"U16", 2},
                                    {"U8", 1},
                                    {"I8", 1},
                                    {"BOOL", 1},
                                    {"F8_E4M3", 1},
                                    {"F8_E5M2", 1},
                                    {"F8_E8M0", 1}}) {
    if (dtype == name) return bytes;
  }
  return 0;
}

Error tensor_error(std::string_view name, std::string_view what) {
  return Error{fmt::format("tensor {}: {}", name, what)};
}

/// The two offsets as int64, or an error.
Result<std::pair<int64_t, int64_t>> read_offsets(const json::object& entry) {
  const json::value* value = entry.if_contains("data_offsets");
  const json::array* pair = value == nullptr ? nullptr : value->if_array();
  if (pair == nullptr || pair->size() != 2 || !(*pair)[0].is_int64() || !(*pair)[1].is_int64()) {
    return Error{"data_offsets are not two integers"};
  }
  return std::pair{(*pair)[0].get_int64(), (*pair)[1].get_int64()};
}

Result<StoredTensor> read_entry(const json::value& value, int64_t data_begin, int64_t file_size) {
  const json::object* entry = value.if_object();
  if (entry == nullptr) return Error{"is no object"};
  const json::value* dtype = entry->if_contains("dtype");
  const json::value* shape = entry->if_contains("shape");
  if (dtype == nullptr || !dtype->is_string()) return Error{"has no dtype"};
  if (shape == nullptr || !shape->is_array()) return Error{"has no shape"};
  const auto offsets = read_offsets(*entry);
  if (!offsets) return offsets.error();

  StoredTensor tensor;
  tensor.dtype = std::string(dtype->get_string());
  int64_t bytes = element_bytes(tensor.dtype);
  if (bytes == 0) return Error{fmt::format("has the unknown dtype \"{}\"", tensor.dtype.substr(0, 40))};
  for (const auto& dim : shape->get_array()) {
    if (!dim.is_int64() || dim.get_int64() < 0) return Error{"has a dimension that is no integer >= 0"};
    tensor.shape.push_back(dim.get_int64());
    if (__builtin_mul_overflow(bytes, dim.get_int64(), &bytes)) return Error{"has a shape whose size overflows"};
  }
  const auto [begin, end] = *offsets;
  if (begin < 0 || end < begin || end > file_size - data_begin) {
    return Error{fmt::format("has data_offsets [{}, {}] outside the {} data bytes of the file", begin, end,
                             file_size - data_begin)};
  }
  if (end - begin != bytes) {
    return Error{fmt::format("has {} bytes by its shape and {} by its data_offsets", bytes, end - begin)};
  }
  tensor.offset = data_begin + begin;
  tensor.bytes = bytes;
  return tensor;
}

Result<void> check_overlap(const SafetensorsHeader& header) {
  std::vector<std::pair<const std::string*, const StoredTensor*>> order;
  for (const auto& [name, tensor] : header) {
    if (tensor.bytes > 0) order.emplace_back(&name, &tensor);
  }
  std::sort(order.begin(), order.end(),
            [](const auto& a, const auto& b) { return a.second->offset < b.second->offset; });
  for (size_t i = 1; i < order.size(); ++i) {
    if (order[i - 1].second->offset + order[i - 1].second->bytes > order[i].second->offset) {
      return tensor_error(*order[i].first, fmt::format("overlaps tensor {}", *order[i - 1].first));
    }
  }
  return {};
}

}  // namespace

Result<SafetensorsHeader> parse_safetensors_header(std::string_view header_json, int64_t data_begin,
                                                   int64_t file_size) {
  const auto parsed = parse_json(header_json, 8);
  if (!parsed) return Error{"the header is no JSON: " + parsed.error().message};
  const json::object* object = parsed->if_object();
  if (object == nullptr) return Error{"the header is no JSON object"};
  SafetensorsHeader header;
  for (const auto& [key, value] : *object) {
    if (key == "__metadata__") continue;
    auto tensor = read_entry(value, data_begin, file_size);
    if (!tensor) return tensor_error(std::string_view(key).substr(0, 200), tensor.error().message);
    header.emplace(std::string(key), std::move(*tensor));
  }
  const auto overlap = check_overlap(header);
  if (!overlap) return overlap.error();
  return header;
}

Result<SafetensorsHeader> read_safetensors_header(const std::string& path) {
  const auto file = File::open_read(path);
  if (!file) return file.error();
  uint64_t length = 0;
  if (file->size() < 8) return Error{fmt::format("{} is no safetensors file: {} bytes", path, file->size())};
  std::byte prefix[8];
  const auto read_length = file->read_at(0, prefix);
  if (!read_length) return read_length.error();
  std::memcpy(&length, prefix, 8);
  if (length > static_cast<uint64_t>(kMaxSafetensorsHeader) || static_cast<int64_t>(length) > file->size() - 8) {
    return Error{fmt::format("{} is no safetensors file: its header claims {} bytes, the file has {}", path, length,
                             file->size())};
  }
  std::string text(length, '\0');
  const auto read_text = file->read_at(8, std::as_writable_bytes(std::span(text)));
  if (!read_text) return read_text.error();
  auto header = parse_safetensors_header(text, 8 + static_cast<int64_t>(length), file->size());
  if (!header) return Error{fmt::format("{}: {}", path, header.error().message)};
  return header;
}

}  // namespace perigee
