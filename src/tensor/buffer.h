// Buffer: move-only bytes on a device, the only owner of tensor memory. Views point into it and never outlive it.
#pragma once

#include <cstddef>
#include <cstdint>

#include "tensor/ops.h"

namespace perigee {

class Buffer {
 public:
  Buffer() = default;
  /// `bytes` of zeroed memory, 64-byte aligned, from the table's allocate; throws std::runtime_error with the size and
  /// the reason when there is not enough.
  Buffer(const Ops& ops, int64_t bytes);
  Buffer(Buffer&& other) noexcept;
  Buffer& operator=(Buffer&& other) noexcept;
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  ~Buffer();

  std::byte* data() const { return data_; }
  int64_t bytes() const { return bytes_; }

 private:
  const Ops* ops_ = nullptr;
  std::byte* data_ = nullptr;
  int64_t bytes_ = 0;
};

}  // namespace perigee
