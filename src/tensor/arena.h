// Arena: a bump allocator over one Buffer, reset at each step. Its size is found by a dry run of the forward pass with
// null_ops(): an Arena without memory only counts.
#pragma once

#include <cstdint>
#include <initializer_list>

#include "tensor/buffer.h"
#include "tensor/view.h"

namespace perigee {

class Arena {
 public:
  /// Counts only: the views it makes have the right shapes and must not be read or written.
  Arena() = default;
  Arena(const Ops& ops, int64_t bytes) : buffer_(ops, bytes), counting_(false) {}

  /// A contiguous, uninitialised view, 64-byte aligned. Running out is a programmer's fault: the dry run sized it.
  View make(DType dtype, std::initializer_list<int64_t> shape);

  void reset() { used_ = 0; }
  int64_t used() const { return used_; }
  int64_t high_water() const { return high_water_; }
  int64_t bytes() const { return buffer_.bytes(); }

  /// Gives back what was made since it was constructed.
  class Scope {
   public:
    explicit Scope(Arena& arena) : arena_(arena), mark_(arena.used_) {}
    ~Scope() { arena_.used_ = mark_; }
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    Arena& arena_;
    int64_t mark_;
  };

 private:
  Buffer buffer_;
  bool counting_ = true;
  int64_t used_ = 0;
  int64_t high_water_ = 0;
};

}  // namespace perigee
