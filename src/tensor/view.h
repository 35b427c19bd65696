// View: pointer, dtype, up to 4 dims and strides. Copyable, never allocates, owns nothing.
//
// Strides are in elements; the innermost dimension is always contiguous. A View never outlives its Buffer.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>

#include "base/check.h"
#include "tensor/dtype.h"

namespace perigee {

struct View {
  std::byte* data = nullptr;
  DType dtype = DType::f32;
  int rank = 0;
  std::array<int64_t, 4> dims{};     // row-major, dims[rank-1] innermost
  std::array<int64_t, 4> strides{};  // elements

  View() = default;
  /// A contiguous view of shape `shape` at `pointer`.
  View(void* pointer, DType type, std::initializer_list<int64_t> shape);

  bool empty() const { return data == nullptr; }
  int64_t dim(int i) const {
    PERIGEE_CHECK(i >= 0 && i < rank, "dim {} of rank {}", i, rank);
    return dims[static_cast<size_t>(i)];
  }
  int64_t rows() const { return dim(0); }
  int64_t cols() const { return dim(rank - 1); }
  int64_t stride(int i) const { return strides[static_cast<size_t>(i)]; }
  int64_t elements() const;
  bool contiguous() const;

  /// Checked access to the start as T*; the dtype must match.
  template <class T>
  T* as() const;
  /// Start of row i (first dimension).
  template <class T>
  T* row(int64_t i) const {
    return as<T>() + i * strides[0];
  }

  /// Rows [begin, begin+count) of the first dimension.
  View rows(int64_t begin, int64_t count) const;
  /// Columns [begin, begin+count) of a rank-2 view (keeps the row stride).
  View cols(int64_t begin, int64_t count) const;
  /// Element i of the first dimension, with that dimension removed.
  View at(int64_t i) const;
  /// Splits the last dimension of a rank-2 view: [T, A*B] -> [T, A, B].
  View split(int64_t outer, int64_t inner) const;
};

template <class T>
constexpr DType dtype_of();
template <>
constexpr DType dtype_of<float>() {
  return DType::f32;
}
template <>
constexpr DType dtype_of<bf16>() {
  return DType::bf16;
}
template <>
constexpr DType dtype_of<int32_t>() {
  return DType::i32;
}
template <>
constexpr DType dtype_of<uint8_t>() {
  return DType::u8;
}

template <class T>
T* View::as() const {
  PERIGEE_CHECK(dtype == dtype_of<T>() || (dtype == DType::mxfp4 && dtype_of<T>() == DType::u8),
                "view is {}, asked as {}", dtype_name(dtype), dtype_name(dtype_of<T>()));
  return reinterpret_cast<T*>(data);
}

/// A weight matrix y = x W^T: `weight` [out, in] in F32, BF16 or MXFP4; for MXFP4 `scale` [out, in/32] U8 (E8M0).
struct Linear {
  View weight;
  View scale;

  bool empty() const { return weight.empty(); }
  int64_t out() const { return weight.dim(0); }
  int64_t in() const { return weight.dim(1); }
  /// Output rows [begin, begin+count).
  Linear rows(int64_t begin, int64_t count) const {
    return {weight.rows(begin, count), scale.empty() ? View{} : scale.rows(begin, count)};
  }
};

}  // namespace perigee
