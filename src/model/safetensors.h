// Safetensors: the header of one file, checked before anything trusts it.
//
// Format: 8 bytes little-endian header length, a JSON object name -> {dtype, shape, data_offsets}, then the data. The
// file may be hostile: every length, product and offset is bounded; tensors may not overlap.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace perigee {

/// One tensor of one file.
struct StoredTensor {
  std::string dtype;  ///< as written: "BF16", "F32", "U8", ...
  std::vector<int64_t> shape;
  int64_t offset = 0;  ///< from the start of the file
  int64_t bytes = 0;
};

using SafetensorsHeader = std::map<std::string, StoredTensor, std::less<>>;

/// Largest header accepted: 400,000 tensors need about 60 MB.
inline constexpr int64_t kMaxSafetensorsHeader = int64_t{256} << 20;

/// Parses the JSON part. `data_begin` is the file offset of the first data byte, `file_size` the file's length. Errors
/// name the tensor.
Result<SafetensorsHeader> parse_safetensors_header(std::string_view header_json, int64_t data_begin, int64_t file_size);

/// Reads the header of a file. Errors name the file too.
Result<SafetensorsHeader> read_safetensors_header(const std::string& path);

}  // namespace perigee
