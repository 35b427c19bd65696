// Sampler: logits to tokens on the host. Stateless; a row depends on its logits, its parameters and its position alone,
// so a seed gives the same text whatever the batch.
//
// Order (SGLang's): logit bias, penalties, stop mask; log-softmax for logprobs; temperature; top-k, top-p, min-p; one
// Philox number at counter (position) under the key (seed). Greedy ties go to the lower id.
#pragma once

#include "base/thread_pool.h"
#include "engine/plan.h"
#include "tensor/view.h"

namespace perigee {

/// `logits` [R, V] F32, host memory, overwritten (penalties are applied in place). Rows in parallel.
std::vector<SampledToken> sample(View logits, std::span<const SampleRow> rows, ThreadPool& pool);

}  // namespace perigee
