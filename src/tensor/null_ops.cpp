#include "tensor/ops.h"

namespace perigee {

const Ops& null_ops() {
  static const Ops table = {
      .name = "null",
      .allocate = [](int64_t) -> void* { return nullptr; },
      .release = [](void*, int64_t) {},
      .upload = [](OpContext&, View, const void*) {},
      .download = [](OpContext&, void*, View) {},
      .copy = [](OpContext&, View, View) {},
      .fill_zero = [](OpContext&, View) {},
      .embed = [](OpContext&, View, View, View) {},
      .gather_rows = [](OpContext&, View, View, View) {},
      .rms_norm = [](OpContext&, View, View, float, View) {},
      .add = [](OpContext&, View, View, View) {},
      .residual_mix = [](OpContext&, const ResidualMixArgs&) {},
      .matmul = [](OpContext&, View, const Linear&, View) {},
      .glu = [](OpContext&, View, View, Activation, View) {},
      .sigmoid_gate = [](OpContext&, View, View, View) {},
      .gated_head_norm = [](OpContext&, View, View, float, View, View) {},
      .short_conv = [](OpContext&, const ShortConvArgs&) {},
      .kda = [](OpContext&, const KdaArgs&) {},
      .mla_append = [](OpContext&, const MlaAppendArgs&) {},
      .mla = [](OpContext&, const MlaArgs&) {},
      .router = [](OpContext&, const RouterArgs&) {},
      .moe = [](OpContext&, const MoeArgs&) {},
  };
  return table;
}

}  // namespace perigee
