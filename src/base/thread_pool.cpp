#include "base/thread_pool.h"

#include <sched.h>

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <vector>

#include "base/check.h"

namespace perigee {
namespace {

/// Polls before a waiter parks: about 20 to 50 us, the usual gap between two operations of a step.
constexpr int kSpins = 2000;

inline void cpu_relax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

std::vector<int> allowed_cpus() {
  cpu_set_t set;
  CPU_ZERO(&set);
  std::vector<int> cpus;
  if (::sched_getaffinity(0, sizeof set, &set) != 0) return {0};
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (CPU_ISSET(cpu, &set)) cpus.push_back(cpu);
  }
  return cpus;
}

void pin_to(int cpu) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(cpu, &set);
  ::sched_setaffinity(0, sizeof set, &set);
}

}  // namespace

struct ThreadPool::State {
  std::vector<std::thread> workers;
  const std::function<void(int64_t, int)>* body = nullptr;
  int64_t count = 0;
  std::atomic<int64_t> next{0};
  std::atomic<int> running{0};   // workers that have not finished the current job
  std::atomic<uint64_t> job{0};  // number of the current job
  std::atomic<bool> stopping{false};
  std::atomic<int> parked{0};
  std::mutex mutex;
  std::condition_variable wake;

  void run_items(int thread) {
    for (int64_t i = next.fetch_add(1); i < count; i = next.fetch_add(1)) (*body)(i, thread);
  }

  bool wait_for_job(uint64_t seen) {
    for (int spin = 0; spin < kSpins; ++spin) {
      if (job.load(std::memory_order_acquire) != seen || stopping) return !stopping;
      cpu_relax();
    }
    std::unique_lock lock(mutex);
    parked.fetch_add(1);
    wake.wait(lock, [&] { return job.load() != seen || stopping; });
    parked.fetch_sub(1);
    return !stopping;
  }

  void work(int thread, int cpu) {
    if (cpu >= 0) pin_to(cpu);
    uint64_t seen = 0;
    while (wait_for_job(seen)) {
      ++seen;
      run_items(thread);
      running.fetch_sub(1, std::memory_order_release);
    }
  }
};

int available_cpus() {
  return static_cast<int>(allowed_cpus().size());
}

ThreadPool::ThreadPool(int threads, bool pin) : state_(std::make_unique<State>()) {
  PERIGEE_CHECK(threads >= 1, "threads {}", threads);
  const std::vector<int> cpus = allowed_cpus();
  for (int i = 1; i < threads; ++i) {
    const int cpu = pin ? cpus[static_cast<size_t>(i) % cpus.size()] : -1;
    state_->workers.emplace_back([state = state_.get(), i, cpu] { state->work(i, cpu); });
  }
}

ThreadPool::~ThreadPool() {
  {
    const std::lock_guard lock(state_->mutex);
    state_->stopping = true;
  }
  state_->wake.notify_all();
  for (auto& worker : state_->workers) worker.join();
}

int ThreadPool::threads() const {
  return static_cast<int>(state_->workers.size()) + 1;
}

void ThreadPool::parallel_for(int64_t count, const std::function<void(int64_t, int)>& body) {
  State& s = *state_;
  if (count <= 0) return;
  if (count == 1 || s.workers.empty()) {
    for (int64_t i = 0; i < count; ++i) body(i, 0);
    return;
  }
  s.body = &body;
  s.count = count;
  s.next.store(0, std::memory_order_relaxed);
  s.running.store(static_cast<int>(s.workers.size()), std::memory_order_relaxed);
  s.job.fetch_add(1);  // sequentially consistent with `parked`, so that no worker sleeps through it
  if (s.parked.load() > 0) {
    const std::lock_guard lock(s.mutex);
    s.wake.notify_all();
  }
  s.run_items(0);
  // Workers finish their last item soon; one that lost its CPU may take long, so yield rather than burn.
  for (int spin = 0; s.running.load(std::memory_order_acquire) != 0; ++spin) {
    if (spin < kSpins) {
      cpu_relax();
    } else {
      std::this_thread::yield();
    }
  }
}

}  // namespace perigee
