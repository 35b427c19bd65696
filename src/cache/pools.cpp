// The bookkeeping behind KvPool and StatePool: generations, reference counts, the free stack and the retire fence.
#include "cache/pools.h"

#include "base/check.h"

namespace perigee {

IdTable::IdTable(std::string_view name, int64_t count) : name_(name) {
  PERIGEE_CHECK(count >= 0 && count <= INT32_MAX, "a pool of {} {}s", count, name);
  entries_.resize(static_cast<size_t>(count));
  free_.reserve(entries_.size());
  for (int64_t i = count; i-- > 0;) free_.push_back(static_cast<int32_t>(i));
}

IdTable::~IdTable() {
  PERIGEE_CHECK(in_use() == 0, "{} {}s outlive their pool", in_use(), name_);
}

IdTable::Entry& IdTable::held(PoolId id, const char* action) {
  PERIGEE_CHECK(id.index >= 0 && id.index < total(), "{} of {} {} of {}", action, name_, id.index, total());
  Entry& entry = entries_[static_cast<size_t>(id.index)];
  PERIGEE_CHECK(entry.references > 0 && entry.generation == id.generation,
                "{} of {} {} generation {}, which was released: it has {} references and generation {}", action, name_,
                id.index, id.generation, entry.references, entry.generation);
  return entry;
}

std::optional<PoolId> IdTable::take() {
  if (free_.empty()) return std::nullopt;
  const int32_t index = free_.back();
  free_.pop_back();
  Entry& entry = entries_[static_cast<size_t>(index)];
  PERIGEE_CHECK(entry.references == 0 && entry.transfers == 0, "free {} {} has {} references, {} transfers", name_,
                index, entry.references, entry.transfers);
  entry.references = 1;
  return PoolId{index, entry.generation};
}

void IdTable::add_reference(PoolId id) {
  ++held(id, "share").references;
}

void IdTable::drop_reference(PoolId id) {
  Entry& entry = held(id, "release");
  if (--entry.references > 0) return;
  ++entry.generation;
  retire_queue_.push_back({id.index, launched_});
  if (launched_ <= completed_) collect();
}

bool IdTable::alive(PoolId id) const {
  if (id.index < 0 || id.index >= total()) return false;
  const Entry& entry = entries_[static_cast<size_t>(id.index)];
  return entry.references > 0 && entry.generation == id.generation;
}

int32_t IdTable::references(PoolId id) const {
  return alive(id) ? entries_[static_cast<size_t>(id.index)].references : 0;
}

void IdTable::begin_transfer(PoolId id) {
  ++held(id, "transfer").transfers;
}

void IdTable::end_transfer(PoolId id) {
  PERIGEE_CHECK(id.index >= 0 && id.index < total(), "end of transfer of {} {} of {}", name_, id.index, total());
  Entry& entry = entries_[static_cast<size_t>(id.index)];
  // An id in transfer cannot be handed out again, so its generation grew by the one release at most.
  PERIGEE_CHECK(entry.transfers > 0 && entry.generation - id.generation <= 1,
                "end of transfer of {} {} generation {}: it has {} transfers and generation {}", name_, id.index,
                id.generation, entry.transfers, entry.generation);
  if (--entry.transfers == 0) collect();
}

void IdTable::launched(uint64_t epoch) {
  PERIGEE_CHECK(epoch > launched_, "step {} launched after step {}", epoch, launched_);
  launched_ = epoch;
}

void IdTable::completed(uint64_t epoch) {
  PERIGEE_CHECK(epoch >= completed_ && epoch <= launched_, "step {} completed: {} launched, {} completed", epoch,
                launched_, completed_);
  completed_ = epoch;
  collect();
}

/// Frees what the fence lets through; what is in transfer stays queued, in order.
void IdTable::collect() {
  size_t kept = 0;
  for (size_t i = 0; i < retire_queue_.size(); ++i) {
    const Retired retired = retire_queue_[i];
    if (retired.epoch <= completed_ && entries_[static_cast<size_t>(retired.index)].transfers == 0) {
      free_.push_back(retired.index);
    } else {
      retire_queue_[kept++] = retired;
    }
  }
  retire_queue_.resize(kept);
}

}  // namespace perigee
