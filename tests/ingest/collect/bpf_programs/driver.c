/* Makes driver calls, some through a runtime of its own, and prints each: `call address bytes result`. */
#include <stddef.h>
#include <stdio.h>
#include <unistd.h>

typedef unsigned long long ptr;
int cuMemAlloc_v2(ptr *, size_t), cuMemAllocAsync(ptr *, size_t, void *);
int cuMemAllocFromPoolAsync(ptr *, size_t, void *, void *), cuMemAllocManaged(ptr *, size_t, unsigned);
int cuMemAllocPitch_v2(ptr *, size_t *, size_t, size_t, unsigned);
int cuMemHostAlloc(ptr *, size_t, unsigned), cuMemAllocHost_v2(ptr *, size_t), cuMemCreate(ptr *, size_t, void *, ptr);
int cuMemMap(ptr, size_t, size_t, ptr, ptr), cuMemUnmap(ptr, size_t), cuMemRelease(ptr);
int cuMemFree_v2(ptr), cuMemFreeAsync(ptr, void *), cuMemFreeHost(ptr);

static void say(const char *call, ptr p, size_t n, int result) { printf("%s %llx %zu %d\n", call, p, n, result); }

int cudaMalloc(ptr *p, size_t n) {
    int result = cuMemAlloc_v2(p, n);
    say("cuMemAlloc_v2", result ? 0 : *p, n, result);
    return result;
}
int cudaFree(ptr p) {
    int result = cuMemFree_v2(p);
    say("cuMemFree_v2", p, 0, result);
    return result;
}
__attribute__((noinline)) void keep_buffer(size_t n) {
    ptr p = 0;
    int result = cudaMalloc(&p, n);
    say("cudaMalloc", result ? 0 : p, n, result);
}
__attribute__((noinline)) void use_buffer(size_t n) {
    ptr p = 0;
    int result = cudaMalloc(&p, n);
    say("cudaMalloc", p, n, result);
    cudaFree(p);
    say("cudaFree", p, 0, 0);
}
__attribute__((noinline)) void other_calls(void) {
    ptr p = 0, handle = 0;
    size_t pitch = 0;
    int r = cuMemAllocAsync(&p, 4096, NULL); say("cuMemAllocAsync", p, 4096, r);
    r = cuMemFreeAsync(p, NULL); say("cuMemFreeAsync", p, 0, r);
    r = cuMemAllocFromPoolAsync(&p, 8192, NULL, NULL); say("cuMemAllocFromPoolAsync", p, 8192, r);
    r = cuMemAllocManaged(&p, 1 << 20, 1); say("cuMemAllocManaged", p, 1 << 20, r);
    r = cuMemAllocPitch_v2(&p, &pitch, 1000, 30, 4); say("cuMemAllocPitch_v2", p, pitch * 30, r);
    r = cuMemHostAlloc(&p, 5000, 0); say("cuMemHostAlloc", p, 5000, r);
    r = cuMemFreeHost(p); say("cuMemFreeHost", p, 0, r);
    r = cuMemAllocHost_v2(&p, 6000); say("cuMemAllocHost_v2", p, 6000, r);
    r = cuMemCreate(&handle, 2 << 20, NULL, 0); say("cuMemCreate", handle, 2 << 20, r);
    r = cuMemMap(0x500000000000ULL, 2 << 20, 0, handle, 0); say("cuMemMap", 0x500000000000ULL, 2 << 20, r);
    r = cuMemUnmap(0x500000000000ULL, 2 << 20); say("cuMemUnmap", 0x500000000000ULL, 2 << 20, r);
    r = cuMemRelease(handle); say("cuMemRelease", handle, 0, r);
}
int main(void) {
    for (int i = 1; i <= 25; i++) {
        keep_buffer(1000 * i);
        use_buffer(64);
    }
    other_calls();
    keep_buffer((size_t)1 << 41); /* fails */
    fflush(stdout);
    usleep(300000); /* bpftrace can name the functions of a process while it lives */
    return 0;
}
