// What the CPU operations share: shape checks, the thread helper, per-thread scratch. Private to cpu/.
#pragma once

#include <cmath>

#include "base/thread_pool.h"
#include "tensor/ops.h"

namespace perigee {

/// Per-thread scratch every CPU operation may use, at least this many bytes.
inline constexpr int64_t kCpuScratchBytes = int64_t{1} << 21;

inline void check_rows(const View& view, int64_t rows, int64_t cols, const char* name) {
  PERIGEE_CHECK(view.rank == 2 && view.dim(0) == rows && view.dim(1) == cols, "{} is rank {} [{}, {}], wanted [{}, {}]",
                name, view.rank, view.dims[0], view.dims[1], rows, cols);
}

inline void check_vector(const View& view, int64_t size, const char* name) {
  PERIGEE_CHECK(view.rank == 1 && view.dim(0) == size, "{} is rank {} [{}], wanted [{}]", name, view.rank, view.dims[0],
                size);
}

template <class T>
T* scratch(const OpContext& context, int thread, int64_t count) {
  PERIGEE_CHECK(count * static_cast<int64_t>(sizeof(T)) <= context.scratch_bytes, "scratch of {} bytes, wanted {}",
                context.scratch_bytes, count * static_cast<int64_t>(sizeof(T)));
  return reinterpret_cast<T*>(context.scratch + thread * context.scratch_bytes);
}

/// body(begin, end, thread) over [0, count) in fixed pieces of `grain`: the pieces do not depend on the thread count.
template <class Body>
void parallel_blocks(const OpContext& context, int64_t count, int64_t grain, Body&& body) {
  const int64_t blocks = (count + grain - 1) / grain;
  context.pool->parallel_for(blocks, [&](int64_t block, int thread) {
    const int64_t begin = block * grain;
    body(begin, begin + grain < count ? begin + grain : count, thread);
  });
}

inline float sigmoid(float x) {
  return 1.0F / (1.0F + std::exp(-x));
}
inline double sigmoid(double x) {
  return 1.0 / (1.0 + std::exp(-x));
}

/// Element `i` of an F32 or BF16 view's row as float.
struct RowReader {
  const std::byte* data;
  DType dtype;
  float operator[](int64_t i) const {
    return dtype == DType::f32 ? reinterpret_cast<const float*>(data)[i]
                               : to_float(reinterpret_cast<const bf16*>(data)[i]);
  }
};

inline RowReader row_reader(const View& view, int64_t row) {
  PERIGEE_CHECK(view.dtype == DType::f32 || view.dtype == DType::bf16, "dtype {}", dtype_name(view.dtype));
  return {view.data + row * view.strides[0] * dtype_bits(view.dtype) / 8, view.dtype};
}

inline void store(const View& view, int64_t row, int64_t col, float value) {
  if (view.dtype == DType::f32) {
    view.row<float>(row)[col] = value;
  } else {
    view.row<bf16>(row)[col] = to_bf16(value);
  }
}

}  // namespace perigee
