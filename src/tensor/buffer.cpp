#include "tensor/buffer.h"

#include <stdexcept>
#include <utility>

namespace perigee {

Buffer::Buffer(const Ops& ops, int64_t bytes) : ops_(&ops), bytes_(bytes) {
  PERIGEE_CHECK(bytes >= 0, "buffer of {} bytes", bytes);
  if (bytes == 0) return;
  data_ = static_cast<std::byte*>(ops.allocate(bytes));
  if (data_ == nullptr) {
    throw std::runtime_error(
        fmt::format("cannot allocate {:.2f} GB on the {} device", static_cast<double>(bytes) / 1e9, ops.name));
  }
}

Buffer::Buffer(Buffer&& other) noexcept
    : ops_(other.ops_), data_(std::exchange(other.data_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}

Buffer& Buffer::operator=(Buffer&& other) noexcept {
  if (this != &other) {
    if (data_ != nullptr) ops_->release(data_, bytes_);
    ops_ = other.ops_;
    data_ = std::exchange(other.data_, nullptr);
    bytes_ = std::exchange(other.bytes_, 0);
  }
  return *this;
}

Buffer::~Buffer() {
  if (data_ != nullptr) ops_->release(data_, bytes_);
}

}  // namespace perigee
