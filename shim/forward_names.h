/*
 * forward_names.h - what drivers export and cuda.h does not declare: graphics interop, whose headers
 * need those of OpenGL, EGL and VDPAU, and a few private names. Also read by forward.S, so no C here.
 *
 * A name that some later cuda.h declares may stay: its entry in entry.c wins.
 */
#ifndef CUWARD_FORWARD_NAMES_H
#define CUWARD_FORWARD_NAMES_H

#define FORWARDS(X) \
	X(cuEGLApiInit) \
	X(cuEGLStreamConsumerAcquireFrame) \
	X(cuEGLStreamConsumerConnect) \
	X(cuEGLStreamConsumerConnectWithFlags) \
	X(cuEGLStreamConsumerDisconnect) \
	X(cuEGLStreamConsumerReleaseFrame) \
	X(cuEGLStreamProducerConnect) \
	X(cuEGLStreamProducerDisconnect) \
	X(cuEGLStreamProducerPresentFrame) \
	X(cuEGLStreamProducerReturnFrame) \
	X(cuGLCtxCreate) \
	X(cuGLCtxCreate_v2) \
	X(cuGLGetDevices) \
	X(cuGLGetDevices_v2) \
	X(cuGLInit) \
	X(cuGLMapBufferObject) \
	X(cuGLMapBufferObjectAsync) \
	X(cuGLMapBufferObjectAsync_v2) \
	X(cuGLMapBufferObjectAsync_v2_ptsz) \
	X(cuGLMapBufferObject_v2) \
	X(cuGLMapBufferObject_v2_ptds) \
	X(cuGLRegisterBufferObject) \
	X(cuGLSetBufferObjectMapFlags) \
	X(cuGLUnmapBufferObject) \
	X(cuGLUnmapBufferObjectAsync) \
	X(cuGLUnregisterBufferObject) \
	X(cuGraphicsEGLRegisterImage) \
	X(cuGraphicsGLRegisterBuffer) \
	X(cuGraphicsGLRegisterImage) \
	X(cuGraphicsResourceGetMappedEglFrame) \
	X(cuGraphicsVDPAURegisterOutputSurface) \
	X(cuGraphicsVDPAURegisterVideoSurface) \
	X(cuMemGetAttribute) \
	X(cuMemGetAttribute_v2) \
	X(cuVDPAUCtxCreate) \
	X(cuVDPAUCtxCreate_v2) \
	X(cuVDPAUGetDevice)

#endif
