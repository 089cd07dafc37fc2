/* Stands in for the CUDA driver: hands out made-up addresses. */
#include <stddef.h>

typedef unsigned long long ptr;
static ptr next = 0x7f0000000000ULL;

static int give(ptr *out, size_t bytes) {
    if (bytes > (1ULL << 40)) return 2; /* CUDA_ERROR_OUT_OF_MEMORY */
    *out = next;
    next += 0x200000;
    return 0;
}
int cuMemAlloc_v2(ptr *p, size_t n) { return give(p, n); }
int cuMemAllocAsync(ptr *p, size_t n, void *stream) { return give(p, n); }
int cuMemAllocFromPoolAsync(ptr *p, size_t n, void *pool, void *stream) { return give(p, n); }
int cuMemAllocManaged(ptr *p, size_t n, unsigned flags) { return give(p, n); }
int cuMemAllocPitch_v2(ptr *p, size_t *pitch, size_t width, size_t height, unsigned element) {
    *pitch = (width + 511) / 512 * 512;
    return give(p, *pitch * height);
}
int cuMemHostAlloc(ptr *p, size_t n, unsigned flags) { return give(p, n); }
int cuMemAllocHost_v2(ptr *p, size_t n) { return give(p, n); }
int cuMemCreate(ptr *handle, size_t n, void *prop, ptr flags) { return give(handle, n); }
int cuMemMap(ptr p, size_t n, size_t offset, ptr handle, ptr flags) { return 0; }
int cuMemUnmap(ptr p, size_t n) { return 0; }
int cuMemRelease(ptr handle) { return 0; }
int cuMemFree_v2(ptr p) { return 0; }
int cuMemFreeAsync(ptr p, void *stream) { return 0; }
int cuMemFreeHost(ptr p) { return 0; }
