/* A pool of threads for loops whose iterations do not depend on each other, and the clock.
 *
 * The result of a loop does not depend on the number of threads: iterations write to different
 * places, and their results are added up afterwards, in a fixed order.
 */
#include "constants.h"
#include "vectors.h"

typedef void (*loop_body)(void *context, int64_t item, int thread);

#if defined(__wasm__)

__attribute__((import_module("env"), import_name("now"))) extern double wi_host_now(void);
static double now_s(void) { return wi_host_now(); }

typedef struct {
    int threads;
} pool_t;
static int pool_start(pool_t *pool, int threads) {
    (void)threads;
    pool->threads = 1;
    return 0;
}
static void pool_end(pool_t *pool) { (void)pool; }
static void pool_run(pool_t *pool, int64_t items, loop_body body, void *context) {
    (void)pool;
    for (int64_t item = 0; item < items; item++) body(context, item, 0);
}

#else

#if defined(_WIN32)
typedef SRWLOCK mutex_t;
typedef CONDITION_VARIABLE signal_t;
typedef HANDLE thread_t;
#define THREAD_RESULT DWORD WINAPI
#define mutex_new(m) InitializeSRWLock(m)
#define mutex_lock(m) AcquireSRWLockExclusive(m)
#define mutex_unlock(m) ReleaseSRWLockExclusive(m)
#define signal_new(s) InitializeConditionVariable(s)
#define signal_wait(s, m) SleepConditionVariableSRW(s, m, INFINITE, 0)
#define signal_all(s) WakeAllConditionVariable(s)
#define mutex_end(m) ((void)(m))
#define signal_end(s) ((void)(s))
static int thread_new(thread_t *thread, LPTHREAD_START_ROUTINE body, void *context) {
    *thread = CreateThread(NULL, 0, body, context, 0, NULL);
    return *thread ? 0 : -1;
}
static void thread_join(thread_t thread) {
    WaitForSingleObject(thread, INFINITE);
    CloseHandle(thread);
}
static double now_s(void) {
    LARGE_INTEGER frequency, count;
    QueryPerformanceFrequency(&frequency), QueryPerformanceCounter(&count);
    return (double)count.QuadPart / (double)frequency.QuadPart;
}
#else
#include <pthread.h>
#include <signal.h>
#include <time.h>
typedef pthread_mutex_t mutex_t;
typedef pthread_cond_t signal_t;
typedef pthread_t thread_t;
#define THREAD_RESULT void *
#define mutex_new(m) pthread_mutex_init(m, NULL)
#define mutex_lock(m) pthread_mutex_lock(m)
#define mutex_unlock(m) pthread_mutex_unlock(m)
#define signal_new(s) pthread_cond_init(s, NULL)
#define signal_wait(s, m) pthread_cond_wait(s, m)
#define signal_all(s) pthread_cond_broadcast(s)
#define mutex_end(m) pthread_mutex_destroy(m)
#define signal_end(s) pthread_cond_destroy(s)
/* Signals stay with the threads of the caller. */
static int thread_new(thread_t *thread, void *(*body)(void *), void *context) {
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int failed = pthread_create(thread, NULL, body, context);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return failed;
}
static void thread_join(thread_t thread) { pthread_join(thread, NULL); }
static double now_s(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}
#endif

#if defined(__x86_64__)
#define relax() __builtin_ia32_pause()
#elif defined(__aarch64__)
#define relax() __asm__ volatile("yield")
#else
#define relax() ((void)0)
#endif

typedef struct pool_t {
    int threads;
    thread_t *others;
    mutex_t mutex;
    signal_t begin, end;
    uint64_t round, open; /* the number of the last loop, and of the one under way; 0: none */
    int joined, closing;  /* threads in a loop, without that of the caller */
    int64_t next, items;
    loop_body body;
    void *context;
} pool_t;

typedef struct {
    pool_t *pool;
    int number;
} worker_t;

static void pool_work(pool_t *pool, int thread) {
    for (;;) {
        int64_t item = __atomic_fetch_add(&pool->next, 1, __ATOMIC_RELAXED);
        if (item >= pool->items) return;
        pool->body(pool->context, item, thread);
    }
}

/* A loop is under way that this thread has not seen, or the pool is closing. */
static int has_begun(pool_t *pool, uint64_t seen) {
    uint64_t open = __atomic_load_n(&pool->open, __ATOMIC_SEQ_CST);
    return (open && open != seen) || __atomic_load_n(&pool->closing, __ATOMIC_RELAXED);
}

static int is_alone(pool_t *pool) { return __atomic_load_n(&pool->joined, __ATOMIC_SEQ_CST) == 0; }

/* A thread waits for the next loop awake for a moment, because the loops of a small program are
 * shorter than it takes to wake up. Then it sleeps. It joins a loop only if that is still open: the
 * caller never waits for a thread that the system has not started in time. */
static THREAD_RESULT pool_thread(void *argument) {
    worker_t worker = *(worker_t *)argument;
    pool_t *pool = worker.pool;
    free(argument);
    for (uint64_t seen = 0;;) {
        for (int turn = 0; turn < SPINS && !has_begun(pool, seen); turn++) relax();
        if (!has_begun(pool, seen)) {
            mutex_lock(&pool->mutex);
            while (!has_begun(pool, seen)) signal_wait(&pool->begin, &pool->mutex);
            mutex_unlock(&pool->mutex);
        }
        if (__atomic_load_n(&pool->closing, __ATOMIC_RELAXED)) return 0;
        __atomic_fetch_add(&pool->joined, 1, __ATOMIC_SEQ_CST);
        uint64_t open = __atomic_load_n(&pool->open, __ATOMIC_SEQ_CST);
        if (open && open != seen) {
            seen = open;
            pool_work(pool, worker.number);
        }
        if (__atomic_sub_fetch(&pool->joined, 1, __ATOMIC_SEQ_CST)) continue;
        mutex_lock(&pool->mutex);
        signal_all(&pool->end);
        mutex_unlock(&pool->mutex);
    }
}

static void pool_end(pool_t *pool) {
    if (!pool->others) return;
    mutex_lock(&pool->mutex);
    __atomic_store_n(&pool->closing, 1, __ATOMIC_RELAXED);
    signal_all(&pool->begin);
    mutex_unlock(&pool->mutex);
    for (int t = 1; t < pool->threads; t++) thread_join(pool->others[t]);
    mutex_end(&pool->mutex), signal_end(&pool->begin), signal_end(&pool->end);
    free(pool->others);
    pool->others = NULL;
}

/* Start a pool. Where fewer threads can be had, it has fewer. */
static int pool_start(pool_t *pool, int threads) {
    *pool = (pool_t){.threads = 1};
    if (threads < 2) return 0;
    pool->others = NEW(thread_t, threads);
    if (!pool->others) return -1;
    mutex_new(&pool->mutex), signal_new(&pool->begin), signal_new(&pool->end);
    for (int t = 1; t < threads; t++) {
        worker_t *worker = NEW(worker_t, 1);
        if (!worker) break;
        *worker = (worker_t){pool, t};
        if (thread_new(pool->others + t, pool_thread, worker)) {
            free(worker);
            break;
        }
        pool->threads = t + 1;
    }
    return 0;
}

/* Call body(context, item, thread) for all items, on all threads. */
static void pool_run(pool_t *pool, int64_t items, loop_body body, void *context) {
    if (pool->threads < 2 || items < 2) {
        for (int64_t item = 0; item < items; item++) body(context, item, 0);
        return;
    }
    pool->next = 0, pool->items = items, pool->body = body, pool->context = context;
    mutex_lock(&pool->mutex);
    __atomic_store_n(&pool->open, ++pool->round, __ATOMIC_SEQ_CST);
    signal_all(&pool->begin);
    mutex_unlock(&pool->mutex);
    pool_work(pool, 0);
    __atomic_store_n(&pool->open, 0, __ATOMIC_SEQ_CST);
    for (int turn = 0; turn < SPINS && !is_alone(pool); turn++) relax();
    if (is_alone(pool)) return;
    mutex_lock(&pool->mutex);
    while (!is_alone(pool)) signal_wait(&pool->end, &pool->mutex);
    mutex_unlock(&pool->mutex);
}

#endif
