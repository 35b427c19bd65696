#include "model/hub.h"

#include <cstdlib>
#include <filesystem>
#include <regex>
#include <vector>

#include "base/file.h"

namespace perigee {
namespace {

namespace fs = std::filesystem;

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

std::string cache_folder() {
  if (const auto cache = environment("HF_HUB_CACHE"); !cache.empty()) return cache;
  if (const auto home = environment("HF_HOME"); !home.empty()) return home + "/hub";
  return environment("HOME") + "/.cache/huggingface/hub";
}

std::string trimmed(std::string text) {
  while (!text.empty() && (text.back() == '\n' || text.back() == '\r' || text.back() == ' ')) text.pop_back();
  return text;
}

bool is_hub_id(const std::string& id) {
  static const std::regex pattern("[A-Za-z0-9][A-Za-z0-9._-]*/[A-Za-z0-9][A-Za-z0-9._-]*");
  return std::regex_match(id, pattern);
}

bool is_plain_name(const std::string& name) {
  return !name.empty() && name[0] != '.' && name.find('/') == std::string::npos;
}

/// The snapshot's name: what refs/<revision> says, the revision itself, or the only one there is.
Result<std::string> find_snapshot(const fs::path& model, const std::string& revision) {
  std::error_code code;
  const fs::path ref = model / "refs" / (revision.empty() ? "main" : revision);
  if (fs::exists(ref, code)) {
    const auto text = read_file(ref.string(), 4096);
    if (!text) return text.error();
    return trimmed(*text);
  }
  if (!revision.empty()) return revision;
  std::vector<std::string> snapshots;
  for (const auto& entry : fs::directory_iterator(model / "snapshots", code))
    snapshots.push_back(entry.path().filename());
  if (snapshots.size() == 1) return snapshots[0];
  return Error{fmt::format("{} has no refs/main and {} snapshots", model.string(), snapshots.size())};
}

}  // namespace

Result<std::string> resolve_model_path(const std::string& path_or_id) {
  std::error_code code;
  if (fs::is_directory(path_or_id, code)) return path_or_id;
  const size_t at = path_or_id.find('@');
  const std::string id = path_or_id.substr(0, at);
  const std::string revision = at == std::string::npos ? "" : path_or_id.substr(at + 1);
  if (!is_hub_id(id) || (at != std::string::npos && !is_plain_name(revision))) {
    return Error{fmt::format("{} is neither a folder nor a hub id of the form org/name", path_or_id)};
  }
  const fs::path model =
      fs::path(cache_folder()) / ("models--" + id.substr(0, id.find('/')) + "--" + id.substr(id.find('/') + 1));
  if (!fs::is_directory(model, code)) {
    return Error{fmt::format("{} is no folder, and {} does not exist; nothing is downloaded: fetch the model first",
                             path_or_id, model.string())};
  }
  const auto snapshot = find_snapshot(model, revision);
  if (!snapshot) return snapshot.error();
  if (!is_plain_name(*snapshot)) return Error{fmt::format("{}: the ref names no snapshot", model.string())};
  const fs::path folder = model / "snapshots" / *snapshot;
  if (!fs::is_directory(folder, code)) {
    return Error{fmt::format("{} does not exist; nothing is downloaded: fetch the model first", folder.string())};
  }
  return folder.string();
}

}  // namespace perigee
