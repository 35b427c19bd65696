// Sampler: logits to tokens on the host. Stateless; a row depends on its logits, its parameters and its position alone,
// so a seed gives the same text whatever the batch.
//
// Order (SGLang's): logit bias, penalties, stop mask; log-softmax for logprobs, so they are before the temperature;
// temperature; top-k, top-p, min-p; one Philox number at counter (position) under the key (seed).
// - top-k: the k best logits. top-p: the fewest best tokens whose probability reaches p, the crossing one included.
//   min-p: those with at least min_p times the best probability. All three look at the full softmax; a token must pass
//   all. Equal logits: lower id first, also for temperature 0, which takes the best.
// - A row whose logits hold a NaN or an infinity gives finite == false and no token.
#pragma once

#include "base/thread_pool.h"
#include "engine/plan.h"
#include "tensor/view.h"

namespace perigee {

/// `logits` [R, V] F32, host memory, overwritten (penalties are applied in place). One result per row; rows in parallel
/// and on distinct logit rows.
std::vector<SampledToken> sample(View logits, std::span<const SampleRow> rows, ThreadPool& pool);

}  // namespace perigee
