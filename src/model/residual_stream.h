// ResidualStream: the running sum x and, with attention residuals, the bank of earlier block sums. Private to model/.
//
// One allocation [rows of the bank + 1, T, H]: the running stream lives in the first free row, so banking it costs
// nothing and the restarted stream simply moves to the next row.
#pragma once

#include "model/pass.h"

namespace perigee {

class ResidualStream {
 public:
  explicit ResidualStream(const Pass& pass);

  /// The running stream [T, H].
  View x() const { return rows_.at(banked_); }

  /// What a sub-layer reads: softmax-weighted sum of the bank and x with this site's folded weight; x itself while the
  /// bank is empty or the model has no attention residuals. The result is valid until the next call.
  View mix(View weight);

  /// At a block's first layer, after its first mix: x joins the bank and the stream restarts from the next sub-layer.
  void begin_block();

  /// Where the next sub-layer writes its output, and what takes it into the stream.
  View output();
  void accumulate(View y);

  /// The same stream cut down to `rows` ([R] I32): for the logits.
  ResidualStream gathered(View rows) const;

 private:
  ResidualStream(const Pass& pass, View rows, int64_t banked) : pass_(pass), rows_(rows), banked_(banked) {}

  const Pass& pass_;
  View rows_;      ///< [bank + 1, T, H]
  View mixed_;     ///< [T, H]
  View sublayer_;  ///< [T, H]
  int64_t banked_ = 0;
  bool restart_ = false;  ///< x holds nothing yet
};

}  // namespace perigee
