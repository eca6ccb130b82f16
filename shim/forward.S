/*
 * forward.S - the exported functions of forward_names.h: each jumps to the driver's own.
 *
 * Nothing is known of their arguments, so all registers that may hold one stay as they are. The stubs
 * are of one size, which is how forward_entry() finds them. They are weak: where the headers declare
 * the function, the entry in entry.c takes the name.
 */
#include "forward_names.h"

#define STUB_BYTES 32

	.text
	.hidden	forward_resolve
	.hidden	driver_forwards
	.hidden	forward_stubs
	.globl	forward_stubs

	.set	number, 0

#if defined(__x86_64__)

.macro	stub name
	.weak	\name
	.type	\name, @function
.Lstub\@:
\name:
	.cfi_startproc
	endbr64
	movq	driver_forwards + 8 * number(%rip), %r11
	testq	%r11, %r11
	je	1f
	jmp	*%r11
1:	movl	$number, %r11d
	jmp	forward_first
	.cfi_endproc
	.size	\name, . - \name
	.org	.Lstub\@ + STUB_BYTES /* fails if it is longer */
	.set	number, number + 1
.endm

/* No driver yet: have forward_resolve(number) find it, with the arguments kept. */
	.type	forward_first, @function
forward_first:
	.cfi_startproc
	subq	$184, %rsp
	.cfi_adjust_cfa_offset 184
	movq	%rdi, 0(%rsp)
	movq	%rsi, 8(%rsp)
	movq	%rdx, 16(%rsp)
	movq	%rcx, 24(%rsp)
	movq	%r8, 32(%rsp)
	movq	%r9, 40(%rsp)
	movups	%xmm0, 48(%rsp)
	movups	%xmm1, 64(%rsp)
	movups	%xmm2, 80(%rsp)
	movups	%xmm3, 96(%rsp)
	movups	%xmm4, 112(%rsp)
	movups	%xmm5, 128(%rsp)
	movups	%xmm6, 144(%rsp)
	movups	%xmm7, 160(%rsp)
	movl	%r11d, %edi
	call	forward_resolve
	movq	%rax, %r11
	movq	0(%rsp), %rdi
	movq	8(%rsp), %rsi
	movq	16(%rsp), %rdx
	movq	24(%rsp), %rcx
	movq	32(%rsp), %r8
	movq	40(%rsp), %r9
	movups	48(%rsp), %xmm0
	movups	64(%rsp), %xmm1
	movups	80(%rsp), %xmm2
	movups	96(%rsp), %xmm3
	movups	112(%rsp), %xmm4
	movups	128(%rsp), %xmm5
	movups	144(%rsp), %xmm6
	movups	160(%rsp), %xmm7
	addq	$184, %rsp
	.cfi_adjust_cfa_offset -184
	jmp	*%r11
	.cfi_endproc
	.size	forward_first, . - forward_first

#elif defined(__aarch64__)

.macro	stub name
	.weak	\name
	.type	\name, %function
.Lstub\@:
\name:
	.cfi_startproc
	hint	#34
	adrp	x16, driver_forwards + 8 * number
	ldr	x16, [x16, #:lo12:driver_forwards + 8 * number]
	cbz	x16, 1f
	br	x16
1:	mov	w17, #number
	b	forward_first
	.cfi_endproc
	.size	\name, . - \name
	.org	.Lstub\@ + STUB_BYTES /* fails if it is longer */
	.set	number, number + 1
.endm

/* No driver yet: have forward_resolve(number) find it, with the arguments kept. */
	.type	forward_first, %function
forward_first:
	.cfi_startproc
	stp	x29, x30, [sp, #-224]!
	.cfi_adjust_cfa_offset 224
	.cfi_rel_offset x29, 0
	.cfi_rel_offset x30, 8
	stp	x0, x1, [sp, #16]
	stp	x2, x3, [sp, #32]
	stp	x4, x5, [sp, #48]
	stp	x6, x7, [sp, #64]
	str	x8, [sp, #80]
	stp	q0, q1, [sp, #96]
	stp	q2, q3, [sp, #128]
	stp	q4, q5, [sp, #160]
	stp	q6, q7, [sp, #192]
	mov	w0, w17
	bl	forward_resolve
	mov	x16, x0
	ldp	x0, x1, [sp, #16]
	ldp	x2, x3, [sp, #32]
	ldp	x4, x5, [sp, #48]
	ldp	x6, x7, [sp, #64]
	ldr	x8, [sp, #80]
	ldp	q0, q1, [sp, #96]
	ldp	q2, q3, [sp, #128]
	ldp	q4, q5, [sp, #160]
	ldp	q6, q7, [sp, #192]
	ldp	x29, x30, [sp], #224
	.cfi_adjust_cfa_offset -224
	.cfi_restore x29
	.cfi_restore x30
	br	x16
	.cfi_endproc
	.size	forward_first, . - forward_first

#else
#error "cuward's forwards are written for x86-64 and aarch64"
#endif

	.balign	STUB_BYTES
forward_stubs:
#define X(name) stub name;
	FORWARDS(X)

	.section .note.GNU-stack, "", %progbits
