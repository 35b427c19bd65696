// The vector operations: every source of this folder is compiled once per instruction set, into its own namespace.
// Private to cpu/; which entries are overridden is decided in table.inc.
#pragma once

#include "tensor/ops.h"

namespace perigee {

namespace avx2 {
/// `base` with the entries that have an AVX2 version replaced.
Ops override_ops(Ops base);
}  // namespace avx2

namespace avx512 {
Ops override_ops(Ops base);
}  // namespace avx512

}  // namespace perigee
