// KvPool and StatePool: the ids of cache pages and of state slots. They own no bytes: a Worker's CacheMemory does, and
// raw ids exist only inside a StepPlan.
//
// A PageRef or SlotRef is one move-only reference to an id; the last one to go retires the id. A retired id is free
// again only when the step that was launched last at that moment has completed and no transfer of its bytes is under
// way (the retire fence), so nothing still running can write into a successor's memory. Owned by the Scheduler; engine
// thread only. Use after release, double free and a pool that dies before its references are programmer's faults.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

namespace perigee {

/// An id together with how often it had been released when it was handed out: unique over the life of a pool.
struct PoolId {
  int32_t index = -1;
  uint32_t generation = 0;
  bool operator==(const PoolId&) const = default;
};

/// The bookkeeping that both pools share. Used through IdPool and IdRef, which keep pages and slots apart by type.
class IdTable {
 public:
  /// `name` is for messages and must be a literal. Ids are 0 .. count-1; the lowest go first, then the last freed.
  IdTable(std::string_view name, int64_t count);
  ~IdTable();
  IdTable(const IdTable&) = delete;
  IdTable& operator=(const IdTable&) = delete;

  std::optional<PoolId> take();  ///< nothing when none is free
  void add_reference(PoolId id);
  void drop_reference(PoolId id);
  /// Whether `id` is held by somebody now; false for a stale generation.
  bool alive(PoolId id) const;
  int32_t references(PoolId id) const;

  void begin_transfer(PoolId id);
  void end_transfer(PoolId id);  ///< `id` may have been released meanwhile
  void launched(uint64_t epoch);
  void completed(uint64_t epoch);

  int64_t total() const { return static_cast<int64_t>(entries_.size()); }
  int64_t free() const { return static_cast<int64_t>(free_.size()); }
  int64_t retiring() const { return static_cast<int64_t>(retire_queue_.size()); }
  int64_t in_use() const { return total() - free() - retiring(); }

 private:
  struct Entry {
    uint32_t generation = 0;
    int32_t references = 0;
    int32_t transfers = 0;
  };
  struct Retired {
    int32_t index;
    uint64_t epoch;
  };
  Entry& held(PoolId id, const char* action);
  void collect();

  std::string_view name_;
  std::vector<Entry> entries_;
  std::vector<int32_t> free_;  ///< a stack
  std::deque<Retired> retire_queue_;
  uint64_t launched_ = 0;
  uint64_t completed_ = 0;
};

template <class Kind>
class IdPool;

/// One reference to one id of an IdPool<Kind>. Empty by default and after a move.
template <class Kind>
class IdRef {
 public:
  IdRef() = default;
  IdRef(IdRef&& other) noexcept : table_(std::exchange(other.table_, nullptr)), id_(std::exchange(other.id_, {})) {}
  IdRef& operator=(IdRef&& other) noexcept {
    if (this != &other) {
      reset();
      table_ = std::exchange(other.table_, nullptr);
      id_ = std::exchange(other.id_, {});
    }
    return *this;
  }
  ~IdRef() { reset(); }

  explicit operator bool() const { return table_ != nullptr; }
  /// The raw id, for a StepPlan; -1 when empty.
  int32_t index() const { return id_.index; }
  PoolId id() const { return id_; }
  /// A second reference to the same id; empty when this one is.
  IdRef share() const;
  /// Gives the reference back.
  void reset() {
    if (table_ != nullptr) std::exchange(table_, nullptr)->drop_reference(std::exchange(id_, {}));
  }

 private:
  friend class IdPool<Kind>;
  IdRef(IdTable* table, PoolId id) : table_(table), id_(id) {}
  IdTable* table_ = nullptr;
  PoolId id_;
};

/// A fixed number of ids of one kind.
template <class Kind>
class IdPool {
 public:
  explicit IdPool(int64_t count) : table_(Kind::kName, count) {}

  /// An empty reference when no id is free.
  IdRef<Kind> take() {
    const std::optional<PoolId> id = table_.take();
    return id ? IdRef<Kind>(&table_, *id) : IdRef<Kind>();
  }
  /// `count` ids, or none at all: nothing when fewer are free.
  std::optional<std::vector<IdRef<Kind>>> take(int64_t count) {
    if (count > free()) return std::nullopt;
    std::vector<IdRef<Kind>> ids;
    ids.reserve(static_cast<size_t>(count));
    for (int64_t i = 0; i < count; ++i) ids.push_back(take());
    return ids;
  }

  /// Step `epoch` was launched: ids released from now on may still be written by it. Epochs grow.
  void launched(uint64_t epoch) { table_.launched(epoch); }
  /// Step `epoch` and all before it are over: what was retired under them and is not in transfer is free.
  void completed(uint64_t epoch) { table_.completed(epoch); }
  /// A copy from or to the id's bytes starts (host tier, storage, network); ends once, also after a release.
  void begin_transfer(const IdRef<Kind>& ref) { table_.begin_transfer(ref.id()); }
  void end_transfer(PoolId id) { table_.end_transfer(id); }

  /// Whether `id` is held by somebody now; false for an id of an earlier generation.
  bool alive(PoolId id) const { return table_.alive(id); }
  int32_t references(PoolId id) const { return table_.references(id); }

  int64_t total() const { return table_.total(); }
  int64_t free() const { return table_.free(); }
  int64_t retiring() const { return table_.retiring(); }  ///< released, fenced
  int64_t in_use() const { return table_.in_use(); }

 private:
  IdTable table_;
};

template <class Kind>
IdRef<Kind> IdRef<Kind>::share() const {
  if (table_ == nullptr) return {};
  table_->add_reference(id_);
  return IdRef(table_, id_);
}

struct PageKind {
  static constexpr std::string_view kName = "page";
};
struct SlotKind {
  static constexpr std::string_view kName = "state slot";
};

using KvPool = IdPool<PageKind>;
using PageRef = IdRef<PageKind>;
using StatePool = IdPool<SlotKind>;
using SlotRef = IdRef<SlotKind>;

}  // namespace perigee
