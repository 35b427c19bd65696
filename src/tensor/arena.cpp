#include "tensor/arena.h"

#include <algorithm>

namespace perigee {

View Arena::make(DType dtype, std::initializer_list<int64_t> shape) {
  constexpr int64_t kAlign = 64;
  View view(nullptr, dtype, shape);
  const int64_t bytes = (view.elements() * dtype_bits(dtype) + 7) / 8;
  // A counting arena hands out addresses from one page up, so that no view looks empty.
  std::byte* base = counting_ ? reinterpret_cast<std::byte*>(uintptr_t{4096}) : buffer_.data();
  PERIGEE_CHECK(counting_ || used_ + bytes <= buffer_.bytes(), "arena of {} bytes is full: {} used, {} wanted",
                buffer_.bytes(), used_, bytes);
  view.data = base + used_;
  used_ += (bytes + kAlign - 1) / kAlign * kAlign;
  high_water_ = std::max(high_water_, used_);
  return view;
}

}  // namespace perigee
