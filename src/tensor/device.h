// Device: one CPU or GPU that runs steps: its operation table and the context every call needs.
//
// Created in apps/ (the only place that names a backend), used by one Worker thread. Move-only.
#pragma once

#include <memory>

#include "base/thread_pool.h"
#include "tensor/buffer.h"
#include "tensor/ops.h"

namespace perigee {

struct Device {
  const Ops* ops = nullptr;
  std::unique_ptr<ThreadPool> pool;
  Buffer scratch;
  OpContext context;

  /// A device over `ops` with `threads` compute threads and the scratch memory the table asks for.
  static Device create(const Ops& ops, int threads, bool pin = false);
};

}  // namespace perigee
