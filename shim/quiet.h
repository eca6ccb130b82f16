/*
 * quiet.h - calls that frameworks make around every operation: no `call` event for them.
 */
#ifndef CUWARD_QUIET_H
#define CUWARD_QUIET_H

#include <stdbool.h>

#include "driver.h"

/* A constant for each call: the compiler drops the test. */
static inline bool quiet_call(enum call call)
{
	switch (call) {
	case CALL_cuCtxGetCurrent:
	case CALL_cuCtxGetDevice:
	case CALL_cuCtxGetDevice_v2:
	case CALL_cuCtxGetId:
	case CALL_cuCtxPopCurrent:
	case CALL_cuCtxPopCurrent_v2:
	case CALL_cuCtxPushCurrent:
	case CALL_cuCtxPushCurrent_v2:
	case CALL_cuCtxSetCurrent:
	case CALL_cuDeviceGet:
	case CALL_cuDeviceGetAttribute:
	case CALL_cuDriverGetVersion:
	case CALL_cuEventElapsedTime:
	case CALL_cuEventElapsedTime_v2:
	case CALL_cuEventQuery:
	case CALL_cuFuncGetAttribute:
	case CALL_cuGetErrorName:
	case CALL_cuGetErrorString:
	case CALL_cuKernelGetAttribute:
	case CALL_cuPointerGetAttribute:
	case CALL_cuPointerGetAttributes:
	case CALL_cuStreamGetCaptureInfo:
	case CALL_cuStreamGetCaptureInfo_ptsz:
	case CALL_cuStreamGetCaptureInfo_v2:
	case CALL_cuStreamGetCaptureInfo_v2_ptsz:
	case CALL_cuStreamGetCaptureInfo_v3:
	case CALL_cuStreamGetCaptureInfo_v3_ptsz:
	case CALL_cuStreamGetCtx:
	case CALL_cuStreamGetCtx_ptsz:
	case CALL_cuStreamGetCtx_v2:
	case CALL_cuStreamGetCtx_v2_ptsz:
	case CALL_cuStreamGetDevice:
	case CALL_cuStreamGetDevice_ptsz:
	case CALL_cuStreamGetFlags:
	case CALL_cuStreamGetFlags_ptsz:
	case CALL_cuStreamGetId:
	case CALL_cuStreamGetId_ptsz:
	case CALL_cuStreamGetPriority:
	case CALL_cuStreamGetPriority_ptsz:
	case CALL_cuStreamIsCapturing:
	case CALL_cuStreamIsCapturing_ptsz:
	case CALL_cuStreamQuery:
	case CALL_cuStreamQuery_ptsz:
	case CALL_cuThreadExchangeStreamCaptureMode:
		return true;
	default:
		return false;
	}
}

#endif
