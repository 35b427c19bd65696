#include "tensor/view.h"

namespace perigee {

View::View(void* pointer, DType type, std::initializer_list<int64_t> shape)
    : data(static_cast<std::byte*>(pointer)), dtype(type), rank(static_cast<int>(shape.size())) {
  PERIGEE_CHECK(rank >= 1 && rank <= 4, "rank {}", rank);
  size_t i = 0;
  for (const int64_t dim : shape) {
    PERIGEE_CHECK(dim >= 0, "dim {} is {}", i, dim);
    dims[i++] = dim;
  }
  int64_t stride = 1;
  for (int d = rank - 1; d >= 0; --d) {
    strides[static_cast<size_t>(d)] = stride;
    stride *= dims[static_cast<size_t>(d)];
  }
}

int64_t View::elements() const {
  int64_t count = 1;
  for (int i = 0; i < rank; ++i) count *= dim(i);
  return count;
}

bool View::contiguous() const {
  int64_t expected = 1;
  for (int d = rank - 1; d >= 0; --d) {
    if (stride(d) != expected) return false;
    expected *= dim(d);
  }
  return true;
}

namespace {

std::byte* advance(std::byte* data, DType dtype, int64_t elements) {
  const int64_t bits = elements * dtype_bits(dtype);
  PERIGEE_CHECK(bits % 8 == 0, "offset of {} elements is no whole byte", elements);
  return data + bits / 8;
}

}  // namespace

View View::rows(int64_t begin, int64_t count) const {
  PERIGEE_CHECK(begin >= 0 && count >= 0 && begin + count <= dim(0), "rows [{}, +{}) of {}", begin, count, dim(0));
  View part = *this;
  part.data = advance(data, dtype, begin * strides[0]);
  part.dims[0] = count;
  return part;
}

View View::cols(int64_t begin, int64_t count) const {
  PERIGEE_CHECK(rank == 2, "cols of rank {}", rank);
  PERIGEE_CHECK(begin >= 0 && count >= 0 && begin + count <= dim(1), "cols [{}, +{}) of {}", begin, count, dim(1));
  View part = *this;
  part.data = advance(data, dtype, begin);
  part.dims[1] = count;
  return part;
}

View View::at(int64_t i) const {
  PERIGEE_CHECK(rank >= 2 && i >= 0 && i < dim(0), "at {} of rank {}", i, rank);
  View part = *this;
  part.data = advance(data, dtype, i * strides[0]);
  part.rank = rank - 1;
  for (size_t d = 0; d + 1 < 4; ++d) {
    part.dims[d] = dims[d + 1];
    part.strides[d] = strides[d + 1];
  }
  part.dims[3] = 0;
  part.strides[3] = 0;
  return part;
}

View View::split(int64_t outer, int64_t inner) const {
  PERIGEE_CHECK(rank == 2 && outer * inner == dim(1), "split {} into {} x {}", rank == 2 ? dim(1) : -1, outer, inner);
  View part = *this;
  part.rank = 3;
  part.dims = {dim(0), outer, inner, 0};
  part.strides = {strides[0], inner, 1, 0};
  return part;
}

}  // namespace perigee
