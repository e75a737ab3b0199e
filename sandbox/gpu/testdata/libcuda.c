/* A stand-in for CUDA's driver library, for tests: events are times of the host's clock.
   It fails where a caller breaks the order of calls that the real one demands. */
#include <stdlib.h>
#include <time.h>

static int ready, current;
struct event { double ms; int recorded; };

int cuInit(unsigned flags) { ready = flags == 0; return ready ? 0 : 1; }
int cuDeviceGet(int *d, int i) {
	const char *v = getenv("CUDA_VISIBLE_DEVICES");
	if (!ready || !v || v[0] != 'G' || i != 0) return 101;
	*d = 0;
	return 0;
}
int cuDevicePrimaryCtxRetain(void **c, int d) { static int ctx; if (!ready || d) return 3; *c = &ctx; return 0; }
int cuCtxSetCurrent(void *c) { current = c != 0; return current ? 0 : 201; }
int cuEventCreate(void **e, unsigned flags) { if (!current || flags) return 201; *e = calloc(1, sizeof(struct event)); return 0; }
int cuEventRecord(void *e, void *stream) {
	struct timespec t;
	if (!current || stream) return 400;
	clock_gettime(CLOCK_MONOTONIC, &t);
	((struct event *)e)->ms = t.tv_sec * 1e3 + t.tv_nsec / 1e6;
	((struct event *)e)->recorded = 1;
	return 0;
}
int cuEventSynchronize(void *e) { return ((struct event *)e)->recorded ? 0 : 600; }
int cuEventElapsedTime(float *ms, void *a, void *b) {
	if (!((struct event *)a)->recorded || !((struct event *)b)->recorded) return 600;
	*ms = ((struct event *)b)->ms - ((struct event *)a)->ms;
	return 0;
}
int cuGetErrorName(int code, const char **s) { *s = code == 201 ? "CUDA_ERROR_INVALID_CONTEXT" : "CUDA_ERROR_OTHER"; return 0; }
