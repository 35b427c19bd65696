#include "tensor/device.h"

namespace perigee {

Device Device::create(const Ops& ops, int threads, bool pin) {
  Device device;
  device.ops = &ops;
  device.pool = std::make_unique<ThreadPool>(threads, pin);
  device.scratch = Buffer(ops, ops.scratch_bytes * threads);
  device.context = {.pool = device.pool.get(), .scratch = device.scratch.data(), .scratch_bytes = ops.scratch_bytes};
  return device;
}

}  // namespace perigee
