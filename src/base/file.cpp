#include "base/file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <utility>

namespace perigee {
namespace {

Error system_error(std::string_view what, const std::string& path) {
  return Error{fmt::format("cannot {} {}: {}", what, path, std::strerror(errno))};
}

}  // namespace

Result<File> File::open_read(const std::string& path) {
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) return system_error("open", path);
  struct stat status{};
  File file(descriptor, 0, path);
  if (::fstat(descriptor, &status) != 0) return system_error("stat", path);
  if (!S_ISREG(status.st_mode)) return Error{fmt::format("cannot read {}: not a regular file", path)};
  file.size_ = status.st_size;
  return file;
}

File::File(File&& other) noexcept
    : descriptor_(std::exchange(other.descriptor_, -1)), size_(other.size_), path_(std::move(other.path_)) {}

File& File::operator=(File&& other) noexcept {
  if (this != &other) {
    if (descriptor_ >= 0) ::close(descriptor_);
    descriptor_ = std::exchange(other.descriptor_, -1);
    size_ = other.size_;
    path_ = std::move(other.path_);
  }
  return *this;
}

File::~File() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

Result<void> File::read_at(int64_t offset, std::span<std::byte> out) const {
  size_t done = 0;
  while (done < out.size()) {
    const ssize_t got = ::pread(descriptor_, out.data() + done, out.size() - done, offset + static_cast<int64_t>(done));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return system_error("read", path_);
    if (got == 0) {
      return Error{fmt::format("cannot read {}: wanted {} bytes at {}, the file ends at {}", path_, out.size(), offset,
                               offset + static_cast<int64_t>(done))};
    }
    done += static_cast<size_t>(got);
  }
  return {};
}

Result<std::string> read_file(const std::string& path, size_t limit) {
  const auto file = File::open_read(path);
  if (!file) return file.error();
  if (static_cast<size_t>(file->size()) > limit) {
    return Error{fmt::format("cannot read {}: {} bytes, more than the limit of {}", path, file->size(), limit)};
  }
  std::string text(static_cast<size_t>(file->size()), '\0');
  const auto read = file->read_at(0, std::as_writable_bytes(std::span(text)));
  if (!read) return read.error();
  return text;
}

Result<void> write_file(const std::string& path, std::string_view content) {
  const std::string temporary = path + ".tmp";
  std::FILE* file = std::fopen(temporary.c_str(), "wb");
  if (file == nullptr) return system_error("write", temporary);
  const bool written = std::fwrite(content.data(), 1, content.size(), file) == content.size();
  const bool closed = std::fclose(file) == 0;
  if (!written || !closed) {
    const Error error = system_error("write", temporary);
    std::remove(temporary.c_str());
    return error;
  }
  if (std::rename(temporary.c_str(), path.c_str()) != 0) return system_error("rename to", path);
  return {};
}

}  // namespace perigee
