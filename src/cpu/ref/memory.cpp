// Memory, rows and embedding.

#include <sys/mman.h>

#include <cstring>

#include "cpu/parallel.h"
#include "cpu/ref/ops.h"

namespace perigee::ref {
namespace {

int64_t row_bytes(const View& view) {
  return view.cols() * dtype_bits(view.dtype) / 8;
}

std::byte* row_data(const View& view, int64_t row) {
  return view.data + row * view.strides[0] * dtype_bits(view.dtype) / 8;
}

}  // namespace

void* allocate(int64_t bytes) {
  // Anonymous pages arrive zeroed and only when touched; large ones may become huge pages.
  void* data = ::mmap(nullptr, static_cast<size_t>(bytes), PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (data == MAP_FAILED) return nullptr;
  if (bytes >= (int64_t{1} << 22)) ::madvise(data, static_cast<size_t>(bytes), MADV_HUGEPAGE);
  return data;
}

void release(void* data, int64_t bytes) {
  ::munmap(data, static_cast<size_t>(bytes));
}

void upload(OpContext&, View dst, const void* host) {
  PERIGEE_CHECK(dst.contiguous(), "upload to a strided view");
  std::memcpy(dst.data, host, static_cast<size_t>(dst.elements() * dtype_bits(dst.dtype) / 8));
}

void download(OpContext&, void* host, View src) {
  PERIGEE_CHECK(src.contiguous(), "download from a strided view");
  std::memcpy(host, src.data, static_cast<size_t>(src.elements() * dtype_bits(src.dtype) / 8));
}

void copy(OpContext& context, View dst, View src) {
  PERIGEE_CHECK(dst.dtype == src.dtype && dst.rank == src.rank && dst.dims == src.dims, "copy between unlike views");
  if (dst.contiguous() && src.contiguous()) {
    std::memcpy(dst.data, src.data, static_cast<size_t>(src.elements() * dtype_bits(src.dtype) / 8));
    return;
  }
  PERIGEE_CHECK(dst.rank == 2, "strided copy of rank {}", dst.rank);
  parallel_blocks(context, dst.rows(), 16, [&](int64_t begin, int64_t end, int) {
    for (int64_t r = begin; r < end; ++r) {
      std::memcpy(row_data(dst, r), row_data(src, r), static_cast<size_t>(row_bytes(src)));
    }
  });
}

void fill_zero(OpContext&, View dst) {
  PERIGEE_CHECK(dst.contiguous(), "fill of a strided view");
  std::memset(dst.data, 0, static_cast<size_t>(dst.elements() * dtype_bits(dst.dtype) / 8));
}

void embed(OpContext& context, View ids, View table, View out) {
  check_rows(out, ids.rows(), table.cols(), "embed out");
  parallel_blocks(context, ids.rows(), 8, [&](int64_t begin, int64_t end, int) {
    for (int64_t t = begin; t < end; ++t) {
      const int32_t id = ids.as<int32_t>()[t];
      PERIGEE_CHECK(id >= 0 && id < table.rows(), "token {} of {}", id, table.rows());
      const RowReader row = row_reader(table, id);
      for (int64_t d = 0; d < table.cols(); ++d) store(out, t, d, row[d]);
    }
  });
}

void gather_rows(OpContext&, View x, View rows, View out) {
  check_rows(out, rows.rows(), x.cols(), "gather out");
  PERIGEE_CHECK(x.dtype == out.dtype, "gather from {} to {}", dtype_name(x.dtype), dtype_name(out.dtype));
  for (int64_t r = 0; r < rows.rows(); ++r) {
    const int32_t from = rows.as<int32_t>()[r];
    PERIGEE_CHECK(from >= 0 && from < x.rows(), "row {} of {}", from, x.rows());
    std::memcpy(row_data(out, r), row_data(x, from), static_cast<size_t>(row_bytes(x)));
  }
}

}  // namespace perigee::ref
