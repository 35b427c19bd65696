#include "model/residual_stream.h"

namespace perigee {

ResidualStream::ResidualStream(const Pass& pass)
    : pass_(pass),
      rows_(pass.arena.make(pass.activation, {pass.config.residual_rows() + 1, pass.rows(), pass.config.hidden})),
      mixed_(pass.make(pass.config.hidden)),
      sublayer_(pass.make(pass.config.hidden)) {}

View ResidualStream::mix(View weight) {
  if (banked_ == 0) return x();
  pass_.ops.residual_mix(
      pass_.context,
      {.bank = rows_.rows(0, banked_), .x = x(), .weight = weight, .eps = pass_.config.rms_eps, .out = mixed_});
  return mixed_;
}

void ResidualStream::begin_block() {
  ++banked_;
  restart_ = true;
}

View ResidualStream::output() {
  return restart_ ? x() : sublayer_;
}

void ResidualStream::accumulate(View y) {
  if (restart_) {
    restart_ = false;
    return;
  }
  pass_.ops.add(pass_.context, x(), y, x());
}

ResidualStream ResidualStream::gathered(View rows) const {
  const int64_t hidden = pass_.config.hidden;
  ResidualStream part(pass_, pass_.arena.make(pass_.activation, {banked_ + 1, rows.rows(), hidden}), banked_);
  for (int64_t r = 0; r <= banked_; ++r) pass_.ops.gather_rows(pass_.context, rows_.at(r), rows, part.rows_.at(r));
  part.mixed_ = pass_.arena.make(pass_.activation, {rows.rows(), hidden});
  return part;
}

}  // namespace perigee
