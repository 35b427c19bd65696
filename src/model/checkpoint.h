// Checkpoint: the files of a model folder and where each tensor lies in them. Opens and checks headers, reads no data.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/file.h"
#include "base/result.h"
#include "model/safetensors.h"

namespace perigee {

class Checkpoint {
 public:
  struct Place {
    int32_t file = 0;  ///< index into files()
    const StoredTensor* tensor = nullptr;
  };

  /// `folder` holds model.safetensors.index.json with its shards, or exactly one *.safetensors file.
  static Result<Checkpoint> open(const std::string& folder);

  /// nullptr-tensor when there is no such name.
  Place find(std::string_view name) const;
  const std::vector<File>& files() const { return files_; }
  size_t tensors() const { return where_.size(); }
  int64_t bytes() const;
  /// Every name, sorted.
  std::vector<std::string_view> names() const;

 private:
  Checkpoint() = default;
  Result<void> add_file(const std::string& path);

  std::vector<File> files_;
  std::vector<SafetensorsHeader> headers_;
  std::map<std::string_view, int32_t> where_;  // name (owned by headers_) -> file
};

}  // namespace perigee
