// Files: whole reads, positioned reads, atomic writes and read-only maps. Errors carry the path and the system's
// reason.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "base/result.h"

namespace perigee {

/// Reads a whole file of at most `limit` bytes.
Result<std::string> read_file(const std::string& path, size_t limit = size_t{1} << 30);

/// Writes to `path`.tmp and renames, so that a reader sees the old or the new content, never half.
Result<void> write_file(const std::string& path, std::string_view content);

/// An open file for positioned reads. Move-only; reads are thread-safe.
class File {
 public:
  static Result<File> open_read(const std::string& path);
  File(File&& other) noexcept;
  File& operator=(File&& other) noexcept;
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  ~File();

  int64_t size() const { return size_; }
  const std::string& path() const { return path_; }
  int descriptor() const { return descriptor_; }
  /// Fills `out` from byte `offset`; reading past the end is an error.
  Result<void> read_at(int64_t offset, std::span<std::byte> out) const;

 private:
  File(int descriptor, int64_t size, std::string path) : descriptor_(descriptor), size_(size), path_(std::move(path)) {}
  int descriptor_ = -1;
  int64_t size_ = 0;
  std::string path_;
};

}  // namespace perigee
