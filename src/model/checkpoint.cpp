#include "model/checkpoint.h"

#include <algorithm>
#include <filesystem>
#include <set>

#include "base/json.h"

namespace perigee {
namespace {

namespace fs = std::filesystem;

/// The shard names of an index file; only plain names inside the folder.
Result<std::set<std::string>> read_index(const std::string& path) {
  const auto text = read_file(path, size_t{1} << 30);
  if (!text) return text.error();
  const auto value = parse_json(*text);
  const json::object* root = value ? value->if_object() : nullptr;
  const json::value* map = root == nullptr ? nullptr : root->if_contains("weight_map");
  if (map == nullptr || !map->is_object()) return Error{path + " has no weight_map"};
  std::set<std::string> shards;
  for (const auto& [name, shard] : map->get_object()) {
    if (!shard.is_string()) return Error{fmt::format("{}: the shard of {} is no string", path, std::string_view(name))};
    const std::string file(shard.get_string());
    if (file.empty() || file.find('/') != std::string::npos || file.find('\\') != std::string::npos || file[0] == '.') {
      return Error{fmt::format("{}: the shard \"{}\" is no file name of the folder", path, file)};
    }
    shards.insert(file);
  }
  if (shards.empty()) return Error{path + " names no shard"};
  return shards;
}

Result<std::set<std::string>> list_shards(const std::string& folder) {
  std::error_code code;
  if (!fs::is_directory(folder, code)) return Error{folder + " is no folder"};
  const std::string index = folder + "/model.safetensors.index.json";
  if (fs::exists(index, code)) return read_index(index);
  std::set<std::string> shards;
  for (const auto& entry : fs::directory_iterator(folder, code)) {
    if (entry.path().extension() == ".safetensors") shards.insert(entry.path().filename());
  }
  if (shards.empty()) return Error{folder + " holds no safetensors file"};
  if (shards.size() > 1) {
    return Error{
        fmt::format("{} holds {} safetensors files and no model.safetensors.index.json", folder, shards.size())};
  }
  return shards;
}

}  // namespace

Result<Checkpoint> Checkpoint::open(const std::string& folder) {
  const auto shards = list_shards(folder);
  if (!shards) return shards.error();
  std::string missing;
  for (const std::string& shard : *shards) {
    if (!fs::exists(folder + "/" + shard)) missing += (missing.empty() ? "" : ", ") + shard;
  }
  if (!missing.empty()) return Error{fmt::format("{} lacks the shards {}", folder, missing.substr(0, 500))};
  Checkpoint checkpoint;
  checkpoint.headers_.reserve(shards->size());
  for (const std::string& shard : *shards) {
    const auto added = checkpoint.add_file(folder + "/" + shard);
    if (!added) return added.error();
  }
  return checkpoint;
}

Result<void> Checkpoint::add_file(const std::string& path) {
  auto header = read_safetensors_header(path);
  if (!header) return header.error();
  auto file = File::open_read(path);
  if (!file) return file.error();
  headers_.push_back(std::move(*header));
  files_.push_back(std::move(*file));
  const auto index = static_cast<int32_t>(files_.size()) - 1;
  for (const auto& [name, tensor] : headers_.back()) {
    if (!where_.emplace(name, index).second) {
      return Error{fmt::format("tensor {} stands in {} and in {}", name,
                               files_[static_cast<size_t>(where_[name])].path(), path)};
    }
  }
  return {};
}

Checkpoint::Place Checkpoint::find(std::string_view name) const {
  const auto found = where_.find(name);
  if (found == where_.end()) return {};
  const auto& header = headers_[static_cast<size_t>(found->second)];
  return {found->second, &header.find(name)->second};
}

int64_t Checkpoint::bytes() const {
  int64_t total = 0;
  for (const auto& header : headers_) {
    for (const auto& [name, tensor] : header) total += tensor.bytes;
  }
  return total;
}

std::vector<std::string_view> Checkpoint::names() const {
  std::vector<std::string_view> names;
  for (const auto& [name, file] : where_) names.push_back(name);
  return names;
}

}  // namespace perigee
