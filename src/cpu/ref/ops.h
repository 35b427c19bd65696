// The reference operations, one file per family. Sums in double where a long sum is formed, so that results stand
// within a rounding of the exact value. Private to cpu/.
#pragma once

#include "tensor/ops.h"

namespace perigee::ref {

void* allocate(int64_t bytes);
void release(void* data, int64_t bytes);
void upload(OpContext&, View dst, const void* host);
void download(OpContext&, void* host, View src);
void copy(OpContext&, View dst, View src);
void fill_zero(OpContext&, View dst);

void embed(OpContext&, View ids, View table, View out);
void gather_rows(OpContext&, View x, View rows, View out);
void rms_norm(OpContext&, View x, View weight, float eps, View out);
void add(OpContext&, View x, View y, View out);
void residual_mix(OpContext&, const ResidualMixArgs&);

void matmul(OpContext&, View x, const Linear& w, View out);
void glu(OpContext&, View gate, View up, Activation, View out);
void sigmoid_gate(OpContext&, View x, View gate, View out);
void gated_head_norm(OpContext&, View x, View weight, float eps, View gate, View out);

void short_conv(OpContext&, const ShortConvArgs&);
void kda(OpContext&, const KdaArgs&);
void mla_append(OpContext&, const MlaAppendArgs&);
void mla(OpContext&, const MlaArgs&);

void router(OpContext&, const RouterArgs&);
void moe(OpContext&, const MoeArgs&);

}  // namespace perigee::ref
