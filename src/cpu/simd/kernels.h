// The operations of one instruction set, as table.inc hands them out. Included inside the sources of this folder.
#pragma once

#include "tensor/ops.h"

namespace perigee::PERIGEE_SIMD {

void matmul(OpContext&, View x, const Linear& w, View out);
void router(OpContext&, const RouterArgs&);
void moe(OpContext&, const MoeArgs&);

/// One row block of a matmul: out[t][n] for all rows t of x and n in [begin, end). `panel` is scratch for
/// panel_rows(in) decoded rows.
void matmul_block(const View& x, const Linear& w, const View& out, int64_t begin, int64_t end, float* panel);
/// Output rows that fit the per-thread scratch when decoded to FP32; a multiple of 4.
int64_t panel_rows(int64_t in);

void kda(OpContext&, const KdaArgs&);
void mla(OpContext&, const MlaArgs&);

void rms_norm(OpContext&, View x, View weight, float eps, View out);
void add(OpContext&, View x, View y, View out);
void residual_mix(OpContext&, const ResidualMixArgs&);
void glu(OpContext&, View gate, View up, Activation, View out);
void sigmoid_gate(OpContext&, View x, View gate, View out);
void gated_head_norm(OpContext&, View x, View weight, float eps, View gate, View out);

}  // namespace perigee::PERIGEE_SIMD
