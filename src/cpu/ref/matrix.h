// Pieces of the reference matmul that other reference operations use. Private to cpu/.
#pragma once

#include "tensor/ops.h"

namespace perigee::ref {

/// Row `row` of a weight matrix, decoded to FP32.
void decode_row(const Linear& w, int64_t row, float* out);

double dot(const float* x, const float* y, int64_t size);

/// Fills ids and weights of row t from its logits.
void choose_experts(const RouterArgs& a, int64_t t);

}  // namespace perigee::ref
